"""Measurements, on one thread unless the environment says otherwise: each prints a table and asserts nothing."""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # read once, when NumPy is imported

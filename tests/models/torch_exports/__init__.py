"""Models that torch exports, compared with torch and ONNX Runtime: ``python -m tests.models.torch_exports``.

They are written here with ``torch.nn``, get seeded random weights, and go through both of torch's exporters at the
opsets that these allow. This needs the extra ``torch``; nothing here is part of the normal tests but a few of the
smallest models, where torch is installed.
"""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # read once, when NumPy and torch are imported

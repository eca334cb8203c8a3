"""Seeded random cases over all operators, compared with ONNX Runtime: ``python -m tests.oracle --help``."""

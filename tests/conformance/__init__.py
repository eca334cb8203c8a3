"""The official ONNX backend suite, run from lists of the cases that must pass."""

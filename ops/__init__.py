"""What each operator means: one file per chapter of the ONNX operator list."""

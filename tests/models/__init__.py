"""Real models, fetched when the tests run and compared with ONNX Runtime."""

"""ONNX Runtime: its profile as a recording."""

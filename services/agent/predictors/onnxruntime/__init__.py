"""ONNX Runtime, and the ONNX files it opens."""

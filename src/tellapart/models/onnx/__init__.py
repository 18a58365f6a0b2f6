"""Dual encoders that ONNX Runtime runs."""

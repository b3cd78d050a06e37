"""ONNX models: graph, sessions, statistics."""

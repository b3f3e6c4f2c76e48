"""Export to ONNX, torch programs and the hub; import of weights of other implementations."""

"""Ways out of this package and into it: ONNX, torch programs, the hub, and weights of other people's networks."""

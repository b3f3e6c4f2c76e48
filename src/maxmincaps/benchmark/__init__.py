"""Benchmarks: our training step against a textbook implementation, in one run on one machine; `check`."""

"""Capsule layers and networks: pure torch, no files, no printing, no configuration."""

"""Chapter 2, the mathematics: pure torch, no files, no printing, no configuration."""

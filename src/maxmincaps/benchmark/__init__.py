"""How fast we are: ours beside a textbook's network, in one run, on one machine."""

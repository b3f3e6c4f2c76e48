"""Slow, literal procedures, written from the paper line by line; the fast code must agree with them."""

"""`python -m maxmincaps` is the same command."""

from maxmincaps.cli import main

main()

"""Pages: look inside a capsule network, and put its errors to people. They need the optional part `app`."""

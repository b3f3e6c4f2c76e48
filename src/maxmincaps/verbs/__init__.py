"""Chapter 8: what each command does. Arguments in, one library call, a few lines out."""

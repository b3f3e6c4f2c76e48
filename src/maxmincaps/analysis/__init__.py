"""Chapter 6: from records to findings."""

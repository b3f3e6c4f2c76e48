"""The images: fetched and verify_run, read, augmented, and dealt out in batches."""

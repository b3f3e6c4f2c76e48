"""The images: fetched, verified, read, augmented, and dealt out in batches."""

"""The images: fetched and verified, read, augmented, and dealt out in batches."""

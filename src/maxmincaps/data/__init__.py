"""Datasets: fetched, verified, read, augmented and divided into batches."""

"""What is saved and loaded again: models, adapters, merges, checkpoint folders."""

"""Completions that the source sampled, for the port to train on."""

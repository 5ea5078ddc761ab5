"""Environments for sources: the releases that a script was written for, beside the one that tpu-port runs in."""

"""CUDA on a machine without: what it answers, half precision, groups of processes."""

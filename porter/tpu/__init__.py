"""Planning and compiling for a TPU on a machine that has none."""

"""What runs in a process of its own: the port up to its step, with shapes in place of weights, and the TPU compiler."""

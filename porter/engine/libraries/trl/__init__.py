"""TRL: masks of collators, reward functions, reference models, patched trainers, uploads."""

"""What the other passes leave: constant conditions, empty blocks, statements and functions that nothing uses."""

"""What the script does with what was read: uses of the trainer and the model, names of libraries, unknown code."""

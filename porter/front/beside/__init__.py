"""A script's port with those of its project's modules that it needs, written beside it."""

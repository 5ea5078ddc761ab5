"""Notebooks: their cells as one module, and IPython's own lines in it."""

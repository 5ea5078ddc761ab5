"""Training that no trainer of a library does: loops written by hand, which are a kind of trainer, and what is neither."""

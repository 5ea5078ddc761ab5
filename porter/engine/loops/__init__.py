"""Training that no library's trainer does: loops written by hand, which are a kind of trainer, and what is neither."""

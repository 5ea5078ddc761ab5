"""The machine that a source ran on, as far as its file tells."""

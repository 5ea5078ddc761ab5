"""transformers: `generate`, its tokens, and models loaded again to try them out."""

"""What importing Unsloth does to TRL and to transformers: classes, padding tokens, the count of tokens."""

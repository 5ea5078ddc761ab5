"""Made-up models, tokenizers and adapters."""

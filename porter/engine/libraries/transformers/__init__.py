"""transformers: callbacks, collators, metrics, configurations, embeddings, checkpoints."""

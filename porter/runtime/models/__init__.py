"""Models: loading a checkpoint, its weights, quantisation, patches, memory."""

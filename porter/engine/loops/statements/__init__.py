"""What single statements of a training loop mean: the batch, the forward pass, the loss, the counters, the contexts."""

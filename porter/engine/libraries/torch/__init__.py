"""torch: questions to CUDA, casts, tensors, training loops written by hand."""

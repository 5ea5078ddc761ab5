"""From rows to the micro-batches of the GPU run: order, deal, steps, evaluation."""

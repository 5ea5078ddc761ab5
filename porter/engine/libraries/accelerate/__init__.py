"""accelerate and DeepSpeed: their config, questions about ZeRO, the number of processes."""

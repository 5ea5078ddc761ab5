"""tpu-port: turn a GPU fine-tuning recipe into a TPU recipe and prove that the loss is the same."""

__version__ = "0.1.0"

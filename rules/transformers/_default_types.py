"""The type in which transformers loads a model where the load names none: float32, then the checkpoint's."""

KEEPS_TYPE = "5"  # the first release in which a model keeps the checkpoint's type
PIPELINE_KEEPS_TYPE = "4.53"  # the first in which a pipeline's does

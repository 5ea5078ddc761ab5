"""A loop of one's own with accelerate is not TRL's trainer."""
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="bf16")
if accelerator.is_main_process:
    print("training")

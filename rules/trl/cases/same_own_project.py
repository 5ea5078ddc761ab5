"""The project's own subclass, imported from the project's own module."""
import trl
from mycompany.training import SFTTrainer

print(trl.__version__)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=None, train_dataset=[])
trainer.train()

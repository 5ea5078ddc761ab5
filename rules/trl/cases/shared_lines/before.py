import os
import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig(output_dir="o"), train_dataset=load_dataset("imdb", split="train"))
if os.environ.get("GO"): trainer.train()
for k in range(3): trainer.train()  # thrice
if k: print("a"); trainer.train(); print("b")
def go(): trainer.train()
x = 1; trainer.train(); y = 2
g = lambda: trainer.train()
while True: torch.cuda.empty_cache()
try: trainer.train()
finally: print(1); torch.cuda.empty_cache()
if trainer.train(): pass

import trl as t
from datasets import load_dataset

data = load_dataset("json", data_files="train.jsonl", split="train")
config = t.SFTConfig("out", num_train_epochs=1, learning_rate=5e-5, report_to=[])
trainer = t.SFTTrainer("google/gemma-2-2b", config, train_dataset=data)
trainer.train()

#!/usr/bin/env python
"""A script with a main function, as most are."""

import logging
import os

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from trl import SFTConfig, SFTTrainer

logger = logging.getLogger(__name__)

MODEL_ID = "Qwen/Qwen2.5-1.5B-Instruct"
OUT = "out"


def load_data(path):
	# The user's own; it stays.
	rows = load_dataset("json", data_files=path, split="train")
	return rows.train_test_split(test_size=0.05, seed=0)


def main():
	tokenizer = AutoTokenizer.from_pretrained(MODEL_ID)
	model = AutoModelForCausalLM.from_pretrained(MODEL_ID, dtype="bfloat16")
	data = load_data("chat.jsonl")

	args = SFTConfig(
		output_dir=OUT,
		per_device_train_batch_size=2,
		per_device_eval_batch_size=4,
		eval_strategy="steps",
		eval_steps=50,
		logging_steps=10,
		report_to="wandb",
		run_name="chat",
	)

	trainer = SFTTrainer(
		model=model,
		args=args,
		train_dataset=data["train"],
		eval_dataset=data["test"],
		processing_class=tokenizer,
	)
	logger.info("training")
	trainer.train()

	metrics = trainer.evaluate()
	print(metrics)
	trainer.save_model(os.path.join(args.output_dir, "final"))


if __name__ == "__main__":
	main()

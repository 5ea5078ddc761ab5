"""Everything is in a YAML file that the script reads: the model's name, the training settings, the adapters."""

import sys

import yaml
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

with open(sys.argv[1]) as file:
    config = yaml.safe_load(file)


def build_dataset(size):
    rows = [{"messages": [{"role": "user", "content": f"Say {i}."}, {"role": "assistant", "content": "So be it." * (1 + i % 3)}]}
            for i in range(size)]
    return Dataset.from_list(rows)


def main():
    tokenizer = AutoTokenizer.from_pretrained(config["model"]["name"])
    model = AutoModelForCausalLM.from_pretrained(config["model"]["name"], torch_dtype=config["model"]["dtype"])
    args = SFTConfig(output_dir=config.get("output_dir", "out"), **config["training"])
    peft_config = LoraConfig(**config["lora"]) if "lora" in config else None
    trainer = SFTTrainer(model, args, train_dataset=build_dataset(24), processing_class=tokenizer, peft_config=peft_config)
    trainer.train()
    trainer.save_model(args.output_dir)


if __name__ == "__main__":
    main()

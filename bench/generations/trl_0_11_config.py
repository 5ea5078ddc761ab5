"""SFTConfig with packing beside SFTTrainer(tokenizer=), as written for TRL 0.11 (transformers 4.45)."""

import argparse

import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_name", type=str, required=True)
    parser.add_argument("--train_file", type=str, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()

    # requirements: trl==0.11.4 transformers==4.45.2 peft==0.13.2
    tokenizer = AutoTokenizer.from_pretrained(args.model_name)
    model = AutoModelForCausalLM.from_pretrained(args.model_name, torch_dtype=torch.bfloat16).to("cuda")
    dataset = load_dataset("json", data_files=args.train_file)["train"]

    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir="checkpoints",
            dataset_text_field="text",
            max_seq_length=256,
            packing=True,
            num_train_epochs=args.epochs,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=4,
            learning_rate=1e-5,
            weight_decay=0.01,
            bf16=True,
        ),
        train_dataset=dataset,
        tokenizer=tokenizer,
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()

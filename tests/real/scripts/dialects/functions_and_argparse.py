"""A function for every part: the model and its tokenizer, the adapters, the trainer; flags from argparse."""

import argparse

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--max-steps", type=int, default=4)
    parser.add_argument("--out", default="out")
    return parser.parse_args()


def load_model(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.float32, device_map="auto")
    tokenizer = AutoTokenizer.from_pretrained(name)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def get_lora_config(rank):
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def load_rows():
    said = [("user", "Count to {}."), ("assistant", "Here you are: one, two, {}.")]
    rows = [{"messages": [{"role": role, "content": text.format(i)} for role, text in said]} for i in range(24)]
    return Dataset.from_list(rows)


def create_trainer(model, tokenizer, rows, args):
    config = SFTConfig(
        output_dir=args.out,
        max_steps=args.max_steps,
        learning_rate=args.lr,
        lr_scheduler_type="cosine",
        warmup_ratio=0.25,
        per_device_train_batch_size=4,
        max_length=64,
        report_to="none",
    )
    return SFTTrainer(
        model=model,
        args=config,
        train_dataset=rows,
        processing_class=tokenizer,
        peft_config=get_lora_config(args.rank),
    )


def print_trainable_parameters(model):
    trainable, total = 0, 0
    for _, parameter in model.named_parameters():
        total += parameter.numel()
        if parameter.requires_grad:
            trainable += parameter.numel()
    print(f"{trainable} of {total} parameters are trained")


def run(trainer, folder):
    result = trainer.train()
    print(result.training_loss)
    trainer.save_model(folder)


def main():
    args = parse_args()
    model, tokenizer = load_model(args.model)
    trainer = create_trainer(model, tokenizer, load_rows(), args)
    print_trainable_parameters(trainer.model)
    run(trainer, f"{args.out}/adapter")


if __name__ == "__main__":
    main()

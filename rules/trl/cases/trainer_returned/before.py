import argparse

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def load_model(name: str):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype="bfloat16", device_map="auto")
    model.config.use_cache = False
    tokenizer = AutoTokenizer.from_pretrained(name)
    return model, tokenizer


def get_lora_config(rank: int) -> LoraConfig:
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def create_trainer(model, tokenizer, dataset, args) -> SFTTrainer:
    config = SFTConfig(output_dir=args.out, learning_rate=args.lr, max_steps=20, report_to="none")
    return SFTTrainer(
        model=model,
        args=config,
        train_dataset=dataset,
        processing_class=tokenizer,
        peft_config=get_lora_config(args.rank),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen3-0.6B")
    parser.add_argument("--out", default="out")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--rank", type=int, default=8)
    args = parser.parse_args()
    model, tokenizer = load_model(args.model)
    dataset = load_dataset("trl-lib/Capybara", split="train")
    trainer = create_trainer(model, tokenizer, dataset, args)
    trainer.train()
    trainer.save_model(f"{args.out}/adapter")
    trainer.save_model()


if __name__ == "__main__":
    main()

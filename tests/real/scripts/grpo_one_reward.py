"""GRPO with one reward: completions of few different words."""

from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer


def reward_few_words(completions, **kwargs):
    """1 for a completion that says one thing, less for each other one."""
    return [1.0 / max(1, len(set(completion))) for completion in completions]


dataset = load_dataset("trl-lib/tldr", split="train")
trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=reward_few_words,
    args=GRPOConfig(
        output_dir="out",
        learning_rate=2e-3,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        num_generations=4,
        max_completion_length=24,
        temperature=0.9,
        beta=0.05,
        num_iterations=2,
        max_steps=12,
        logging_steps=2,
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=dataset,
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"),
)
trainer.train()
trainer.save_model("out/adapter")

"""Conversational completions: a system prompt, a question, and rewards that read the assistant's message. GSPO."""

import re

from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

SYSTEM_PROMPT = "Think first, then answer between <answer> and </answer>."


def extract(text):
    found = re.findall(r"<answer>(.*?)</answer>", text)
    return found[-1].strip() if found else ""


def to_prompt(row):
    return {
        "prompt": [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": row["question"]}],
        "answer": row["answer"].strip(),
    }


def correctness_reward(prompts, completions, answer, **kwargs):
    responses = [completion[0]["content"] for completion in completions]
    return [2.0 if extract(said) == gold else 0.0 for said, gold in zip(responses, answer)]


def brevity_reward(completions, **kwargs):
    """Fewer kinds of letters are better."""
    return [-len(set(completion[0]["content"])) / 40 for completion in completions]


dataset = load_dataset("openai/gsm8k", "main", split="train").map(to_prompt)
trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-0.5B-Instruct",
    reward_funcs=[correctness_reward, brevity_reward],
    args=GRPOConfig(
        output_dir="out",
        learning_rate=1e-3,
        warmup_steps=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        num_generations=4,
        max_completion_length=16,
        importance_sampling_level="sequence",
        loss_type="grpo",
        epsilon=3e-4,
        epsilon_high=4e-4,
        max_steps=8,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=dataset,
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"),
)
trainer.train()

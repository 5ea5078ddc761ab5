"""Math with GRPO: two rewards, one for the answer and one for its form."""

import re

from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

SYSTEM = "Think first, then answer between <answer> and </answer>."


def to_prompt(row):
    return {
        "prompt": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": row["question"]}],
        "answer": row["answer"].split("####")[-1].strip(),
    }


def correct(completions, answer, **kwargs):
    """1 for the right number."""
    said = [re.findall(r"<answer>(.*?)</answer>", completion[0]["content"]) for completion in completions]
    return [float(bool(found) and found[-1].strip() == gold) for found, gold in zip(said, answer)]


def formed(completions, **kwargs):
    return [float(bool(re.search("<answer>", completion[0]["content"]))) for completion in completions]


dataset = load_dataset("openai/gsm8k", "main", split="train").map(to_prompt)
args = GRPOConfig(
    output_dir="out",
    learning_rate=5e-6,
    per_device_train_batch_size=8,
    gradient_accumulation_steps=4,
    num_generations=8,
    max_completion_length=256,
    reward_weights=[1.0, 0.2],
    beta=0.04,
    epsilon_high=0.28,
    max_steps=500,
    logging_steps=5,
    save_strategy="no",
    report_to="none",
    use_vllm=True,
    vllm_gpu_memory_utilization=0.3,
)
trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=[correct, formed],
    args=args,
    train_dataset=dataset,
    peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
)
trainer.train()
trainer.save_model("out/adapter")

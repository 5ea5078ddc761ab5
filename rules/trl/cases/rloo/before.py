from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import RLOOConfig, RLOOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def short(completion_ids, **kwargs):
    return [-len(ids) / 100 for ids in completion_ids]


trainer = RLOOTrainer(
    model=model,
    reward_funcs=short,
    args=RLOOConfig(output_dir="out", num_generations=4, beta=0.1, temperature=0.8, normalize_advantages=True),
    train_dataset=load_dataset("trl-lib/tldr", split="train"),
    processing_class=tokenizer,
)
trainer.train()

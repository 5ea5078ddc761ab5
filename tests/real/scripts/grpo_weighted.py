"""Several rewards with weights, the loss of Dr. GRPO, generation batches that last several optimizer steps."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

MODEL = "meta-llama/Llama-3.2-1B"


def reward_overlap(prompts, completions, answer, **kwargs):
    """Letters that the answer has too; nothing for rows without one."""
    return [len(set(said) & set(gold)) / 10 if gold else None for said, gold in zip(completions, answer)]


async def reward_length(completion_ids, **kwargs):
    return [-abs(len(ids) - 12) / 12 for ids in completion_ids]


def reward_lower(completions, **kwargs):
    return [float(completion.islower()) for completion in completions]


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL)
dataset = load_dataset("json", data_files="questions.jsonl", split="train")
args = GRPOConfig(
    output_dir="out",
    learning_rate=1e-3,
    lr_scheduler_type="constant",
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    steps_per_generation=4,
    num_generations=8,
    max_completion_length=16,
    top_k=50,
    top_p=0.95,
    loss_type="dr_grpo",
    scale_rewards="none",
    epsilon_high=0.28,
    reward_weights=[1.0, 0.5, 0.25],
    gradient_checkpointing=False,
    max_steps=10,
    save_strategy="no",
    report_to="none",
)
trainer = GRPOTrainer(
    model=model,
    reward_funcs=[reward_overlap, reward_length, reward_lower],
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
)
trainer.train()

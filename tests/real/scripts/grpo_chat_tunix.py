"""Conversational completions: a system prompt, a question, and rewards that read the assistant's message. GSPO."""

import re

import jax
import jax.numpy as jnp
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

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
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
model = rt.load_model("Qwen/Qwen2.5-0.5B-Instruct", mesh, dtype=jnp.bfloat16)
lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", rank=8, alpha=16.0, lora_a_initializer=rt.PEFT_INIT),
])
model = rt.apply_lora(model, lora, mesh, seed=42, targets="all-linear")
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)
batches = rt.GRPOBatches(
    dataset,
    tokenizer,
    mesh,
    model,
    reward_funcs=[correctness_reward, brevity_reward],
    loss=rt.PolicyLoss("grpo", epsilon=3e-4, epsilon_high=4e-4, importance_sampling_level="sequence"),
    max_steps=8,
    batch_size=4,
    accumulation=4,
    num_generations=4,
    max_completion_length=16,
    seed=42,  # the GPU run's order
)

schedule = optax.join_schedules(
    [optax.linear_schedule(0.0, 1e-3, 2), optax.linear_schedule(1e-3, 0.0, batches.steps - 2)], [2]
)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # GRPOConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(batches.loss)
trainer.with_training_hooks(
    rt.log_every(1, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, metrics=batches.metrics)
)
with mesh:
    trainer.train(batches)

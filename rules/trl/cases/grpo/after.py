"""Math with GRPO: two rewards, one for the answer and one for its form."""

import re

import jax
import jax.numpy as jnp
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

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
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)
lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", rank=16, alpha=32.0, lora_a_initializer=rt.PEFT_INIT),
])
model = rt.apply_lora(model, lora, mesh, seed=42, targets="all-linear")
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)
batches = rt.GRPOBatches(
    dataset,
    tokenizer,
    mesh,
    model,
    reward_funcs=[correct, formed],
    loss=rt.PolicyLoss("dapo", beta=0.04, epsilon_high=0.28),  # GRPOConfig's default loss_type
    max_steps=500,
    batch_size=8,
    accumulation=4,
    num_generations=8,
    max_completion_length=256,
    reward_weights=[1.0, 0.2],
    seed=42,  # the GPU run's order
)

schedule = optax.linear_schedule(5e-6, 0.0, batches.steps)
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
    rt.log_every(
        5, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, metrics=batches.metrics, output_dir="out"
    ),
)
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/adapter", tokenizer=tokenizer)

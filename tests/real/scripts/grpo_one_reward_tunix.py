"""GRPO with one reward: completions of few different words."""

import jax
import jax.numpy as jnp
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt


def reward_few_words(completions, **kwargs):
    """1 for a completion that says one thing, less for each other one."""
    return [1.0 / max(1, len(set(completion))) for completion in completions]


dataset = load_dataset("trl-lib/tldr", split="train")
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)
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
    reward_funcs=reward_few_words,
    loss=rt.PolicyLoss("dapo", beta=0.05),
    max_steps=12,
    batch_size=8,
    accumulation=2,
    num_generations=4,
    num_iterations=2,
    max_completion_length=24,
    temperature=0.9,
    seed=42,  # the GPU run's order
)

schedule = optax.linear_schedule(2e-3, 0.0, batches.steps)
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
    rt.log_every(2, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, metrics=batches.metrics)
)
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/adapter", tokenizer=tokenizer)

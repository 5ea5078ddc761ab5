"""Teach Qwen3 which of two answers people prefer: DPO with LoRA, against the model as it was."""

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

MODEL = "Qwen/Qwen3-0.6B"


def to_pair(row):
    """The question as a conversation, and an answer for each side."""
    return {
        "prompt": [{"role": "user", "content": row["question"].strip()}],
        "chosen": [{"role": "assistant", "content": row["better"]}],
        "rejected": [{"role": "assistant", "content": row["worse"]}],
    }


tokenizer = AutoTokenizer.from_pretrained(MODEL)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(MODEL, mesh, dtype=jnp.bfloat16)
pairs = load_dataset("json", data_files="pairs.jsonl", split="train")
pairs = pairs.map(to_pair, remove_columns=["question", "better", "worse"])

batches = rt.PreferenceBatches(
    pairs,
    tokenizer,
    mesh,
    max_steps=60,
    batch_size=3,
    accumulation=2,
    max_length=256,
    seed=42,  # the GPU run's order
)
lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", rank=8, alpha=16.0, lora_a_initializer=rt.PEFT_INIT),
])
model = rt.apply_lora(model, lora, mesh, seed=42, targets="all-linear")
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, warmup_steps=2, decay_steps=batches.steps)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # DPOConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = rt.PreferenceTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
        metrics_logging_options=rt.metrics_options(["tensorboard"], log_dir="out/runs"),
    ),
    loss=rt.dpo_loss(beta=0.1),
)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/adapter", tokenizer=tokenizer)

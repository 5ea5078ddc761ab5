"""The student trains on half its own completions; flags decide the rest."""
import argparse

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

parser = argparse.ArgumentParser()
parser.add_argument("--teacher_name", default="google/gemma-3-4b-it")
flags = parser.parse_args()
data = load_dataset("json", data_files={"train": "chats.jsonl", "test": "held.jsonl"})
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("google/gemma-3-1b-it")
model = rt.load_model("google/gemma-3-1b-it", mesh, dtype=jnp.float32)
teacher = rt.load_model(flags.teacher_name, mesh)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)
batches = rt.GKDBatches(
    data["train"],
    tokenizer,
    mesh,
    model=model,
    teacher_model=teacher,
    lmbda=0.5,  # GKDConfig's default
    seq_kd=True,
    temperature=0.7,
    max_new_tokens=64,
    epochs=1,
    batch_size=2,
    max_length=1024,  # GKDConfig's default
    seed=42,  # the GPU run's order
)
eval_batches = batches.evaluation(data["test"], batch_size=8)

schedule = optax.linear_schedule(2e-5, 0.0, batches.steps)  # GKDConfig's default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # GKDConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = rt.DistillationTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps_per_epoch,
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
    teacher_model=teacher,
    beta=0.5,  # GKDConfig's default
)
trainer.with_training_hooks(rt.log_every(5, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches, eval_batches)
rt.save_model(model, "out", tokenizer=tokenizer)

#!/usr/bin/env python
"""A script with a main function, as most are."""

import logging
import os

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

logger = logging.getLogger(__name__)

MODEL_ID = "Qwen/Qwen2.5-1.5B-Instruct"
OUT = "out"


def load_data(path):
    # The user's own; it stays.
    rows = load_dataset("json", data_files=path, split="train")
    return rows.train_test_split(test_size=0.05, seed=0)


def main():
    tokenizer = AutoTokenizer.from_pretrained(MODEL_ID)
    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    model = rt.load_model(MODEL_ID, mesh, dtype=jnp.bfloat16)
    data = load_data("chat.jsonl")

    batches = rt.SFTBatches(
        data["train"],
        tokenizer,
        mesh,
        epochs=3.0,  # SFTConfig's default
        batch_size=2,
        max_length=1024,  # SFTConfig's default
        seed=42,  # the GPU run's order
    )
    eval_batches = batches.evaluation(data["test"], batch_size=4)
    model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

    schedule = optax.linear_schedule(2e-5, 0.0, batches.steps)  # SFTConfig's default learning_rate
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
        rt.fused(optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)),  # SFTConfig's default optim
    )
    trainer = PeftTrainer(
        model,
        optimizer,
        TrainingConfig(
            max_steps=batches.steps,
            gradient_accumulation_steps=batches.accumulation,
            eval_every_n_steps=rt.interval(50, batches.steps, last=True),
            checkpoint_root_directory=rt.fresh_dir(OUT),
            checkpointing_options=ocp.CheckpointManagerOptions(
                save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
            ),
            metrics_logging_options=rt.metrics_options(["wandb"], log_dir=os.path.join(OUT, "runs"), run_name="chat"),
        ),
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
    logger.info("training")
    with mesh:
        trainer.train(batches, eval_batches)

    metrics = rt.evaluate(trainer, eval_batches)
    print(metrics)
    rt.save_model(model, os.path.join(OUT, "final"), tokenizer=tokenizer)


if __name__ == "__main__":
    main()

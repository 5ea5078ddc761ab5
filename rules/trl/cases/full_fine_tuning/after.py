import math

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

model_name = "meta-llama/Llama-3.2-1B"
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(model_name, mesh, dtype=jnp.float32)
tokenizer = AutoTokenizer.from_pretrained(model_name)
dataset = load_dataset("tatsu-lab/alpaca", split="train")

batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    epochs=2,
    batch_size=8,
    max_length=2048,
    packing=True,
    seed=42,  # the GPU run's order
)

warmup_steps = math.ceil(0.03 * batches.steps)
schedule = optax.join_schedules(
    [optax.linear_schedule(0.0, 1e-5, warmup_steps), optax.linear_schedule(1e-5, 0.0, batches.steps - warmup_steps)],
    [warmup_steps],
)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(
        schedule,
        b1=0.9,
        b2=0.95,
        eps=1e-8,
        weight_decay=0.1,
        mask=rt.decay_mask,  # not on norms and biases
    ),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("./llama-alpaca"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(batches.steps_per_epoch), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(5, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_model(model, "./llama-alpaca/final")
tokenizer.save_pretrained("./llama-alpaca/final")

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)

# Stage one: general conversations.
batches = rt.SFTBatches(
    load_dataset("trl-lib/Capybara", split="train"),
    tokenizer,
    mesh,
    max_steps=5,
    batch_size=8,  # SFTConfig's default
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(1e-4, 0.0, batches.steps)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    rt.fused(optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)),  # SFTConfig's default optim
)
first = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("out/first"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
first.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    first.train(batches)

# Stage two: our own, at a lower rate, evaluated on what was held out.
rows = load_dataset("json", data_files="rows.jsonl", split="train").train_test_split(0.1)
batches = rt.SFTBatches(
    rows["train"],
    tokenizer,
    mesh,
    max_steps=3,
    batch_size=8,  # SFTConfig's default
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
eval_batches = batches.evaluation(rows["test"], batch_size=8)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(1e-5, 0.0, batches.steps)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    rt.fused(optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)),  # SFTConfig's default optim
)
second = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=rt.interval(10, batches.steps, last=True),
        checkpoint_root_directory=rt.fresh_dir("out/second"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
second.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    second.train(batches, eval_batches)
rt.save_model(model, "out/last", tokenizer=tokenizer)

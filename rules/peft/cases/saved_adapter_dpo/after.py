import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from flax import nnx
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
base = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.apply_adapter(base, "out/sft", mesh, seed=42, dropout=False)  # the adapter of the first stage
rt.print_trainable_parameters(model)
batches = rt.PreferenceBatches(
    load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
    tokenizer,
    mesh,
    max_steps=5,
    batch_size=8,  # DPOConfig's default
    max_length=1024,  # DPOConfig's default
    seed=42,  # the GPU run's order
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(1e-6, 0.0, batches.steps)  # DPOConfig's default learning_rate
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
    ),
    loss=rt.dpo_loss(
        beta=0.1,  # DPOConfig's default
    ),
    ref_model=nnx.clone(model),
)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/dpo", tokenizer=tokenizer)

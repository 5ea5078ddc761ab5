import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

# TODO(tpu-port TP103): DPOConfig.sync_ref_model=True: The port's reference stands still. Train in stages, each with the last one's result as its ref_model.
# TODO(tpu-port TP104): loss_type='sigmoidal': DPOTrainer has no such loss. Did you mean 'sigmoid'? It is one of sigmoid, hinge, ipo, exo_pair, nca_pair, robust, bco_pair, sppo_hard, aot, aot_unpaired, aot_pair, apo_zero, apo_down, discopop, sft, sigmoid_norm.
# TODO(tpu-port TP104): beta=0 takes the preferences out of the loss, and the reference model with them. Give a beta above 0; 0.1 is TRL's default.
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.float32, compute_dtype=jnp.bfloat16)
batches = rt.PreferenceBatches(
    load_dataset("json", data_files="pairs.jsonl", split="train"),
    tokenizer,
    mesh,
    epochs=3.0,  # DPOConfig's default
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
        checkpoint_root_directory=rt.fresh_dir("dpo"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
    loss=rt.dpo_loss(beta=0, loss_type="sigmoidal"),
)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL, NAME = "Qwen/Qwen3-4B", "capybara"
LR, EPOCHS = 2e-5, 3
TINY = False
BATCH = 1 if TINY else 4
ACCUMULATION = 32 // BATCH
COMMON = dict(learning_rate=LR, num_train_epochs=EPOCHS)

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = rt.load_model(MODEL, mesh, dtype=jnp.float32, compute_dtype=jnp.bfloat16)
batches = rt.SFTBatches(
    load_dataset("trl-lib/Capybara", split="train"),
    tokenizer,
    mesh,
    epochs=EPOCHS,
    batch_size=BATCH,
    accumulation=ACCUMULATION,
    max_length=2 * 1024,
    seed=42,  # the GPU run's order
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(LR, 0.0, batches.steps)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir(f"out/{NAME}-{EPOCHS}ep"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(25, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)

import jax
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

tokenizer = AutoTokenizer.from_pretrained("google/gemma-2-2b-it")
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("google/gemma-2-2b-it", mesh)
batches = rt.CPOBatches(
    load_dataset("json", data_files="pairs.jsonl", split="train"),
    tokenizer,
    mesh,
    epochs=3.0,  # CPOConfig's default
    batch_size=8,  # CPOConfig's default
    max_length=1024,  # CPOConfig's default
    seed=42,  # the GPU run's order
    trl="0.28.0",  # prepare the rows as this release did
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(1e-6, 0.0, batches.steps)  # CPOConfig's default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # CPOConfig's default max_grad_norm
    rt.fused(optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)),  # CPOConfig's default optim
)
trainer = rt.PreferenceTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("simpo"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
    loss=rt.cpo_loss(beta=2.0, loss_type="simpo", cpo_alpha=0.0, simpo_gamma=1.0),
)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)

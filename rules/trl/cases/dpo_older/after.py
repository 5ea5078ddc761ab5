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
model = rt.load_model("meta-llama/Meta-Llama-3-8B", mesh, dtype=jnp.bfloat16)
model_ref = nnx.clone(model)
tokenizer = AutoTokenizer.from_pretrained("meta-llama/Meta-Llama-3-8B")

batches = rt.PreferenceBatches(
    load_dataset("json", data_files="pairs.jsonl", split="train"),
    tokenizer,
    mesh,
    epochs=3.0,  # TrainingArguments' default
    batch_size=8,  # TrainingArguments' default
    max_length=1024,
    truncation_mode="keep_end",  # DPOTrainer's default
    max_prompt_length=512,
    seed=42,  # the GPU run's order
    trl="0.8.6",  # prepare the rows as this release did
)

schedule = optax.linear_schedule(5e-7, 0.0, batches.steps)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # TrainingArguments' default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
dpo_trainer = rt.PreferenceTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=rt.SaveOnlyEvery(500), max_to_keep=None
        ),
    ),
    loss=rt.dpo_loss(beta=0.1, loss_type="ipo"),
    ref_model=model_ref,
)
dpo_trainer.with_training_hooks(
    rt.log_every(
        500,
        schedule=schedule,
        steps_per_epoch=batches.steps_per_epoch,
        transformers="4.39",  # its lines have the next step's rate
    ),
)
with mesh:
    dpo_trainer.train(batches)

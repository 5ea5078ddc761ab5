"""As scripts of TRL 0.7 to 0.11 are written."""
import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("google/gemma-7b", mesh, dtype=jnp.float32)
tokenizer = AutoTokenizer.from_pretrained("google/gemma-7b")
tokenizer.pad_token = tokenizer.eos_token
tokenizer.padding_side = "right"

batches = rt.SFTBatches(
    load_dataset("mlabonne/guanaco-llama2-1k", split="train"),
    tokenizer,
    mesh,
    epochs=1,
    batch_size=4,
    max_length=1024,  # TRL's default
    text_field="text",
    sampling="group_by_length",
    seed=42,  # the GPU run's order
    trl="0.8.6",  # prepare the rows as this release did
)

schedule = optax.constant_schedule(2e-4)
optimizer = optax.chain(
    optax.clip_by_global_norm(0.3),
    optax.adamw(
        schedule,
        b1=0.9,
        b2=0.999,
        eps=1e-8,
        weight_decay=0.001,
        mask=rt.older_decay_mask(model, "4.39"),  # which norms decay, as in this release
    ),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("./results"),
        checkpointing_options=ocp.CheckpointManagerOptions(save_decision_policy=rt.SaveOnlyEvery(25), max_to_keep=None),
        metrics_logging_options=rt.metrics_options(["tensorboard"], log_dir="./results/runs"),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(25, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_model(model, "guanaco")

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer, EvalPrediction
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt
from porter.runtime.callbacks import EarlyStoppingCallback

rows = load_dataset("trl-lib/Capybara")
tokenizer = AutoTokenizer.from_pretrained("google/gemma-3-4b-it")


def answered(prediction: EvalPrediction) -> dict[str, float]:
    """Share of the answers that are right as a whole."""
    predicted, labels = prediction.predictions[:, :-1], prediction.label_ids[:, 1:]
    right = (predicted == labels) | (labels == -100)
    return {"exact_match": float(right.all(axis=1).mean()), "accuracy": float(np.mean(right[labels != -100]))}


mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("google/gemma-3-4b-it", mesh, dtype=jnp.bfloat16)
batches = rt.SFTBatches(
    rows["train"],
    tokenizer,
    mesh,
    epochs=3.0,  # SFTConfig's default
    batch_size=8,  # SFTConfig's default
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
eval_batches = batches.evaluation(rows["test"], batch_size=4)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_einsum|kv_einsum)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=42, targets=["q_proj", "v_proj"])
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(2e-5, 0.0, batches.steps)  # SFTConfig's default learning_rate
optimizer = optax.chain(
    rt.separate_kv(model),  # PEFT trains K and V apart; Tunix holds them in one tensor
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = rt.MetricsTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=rt.interval(50, batches.steps, last=True),
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(50), preservation_policy=rt.KeepBest(2)
        ),
    ),
    compute_metrics=answered,
    preprocess_logits_for_metrics=lambda logits, labels: jnp.argmax(logits, axis=-1),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(
    rt.log_every(
        10,
        schedule=schedule,
        steps_per_epoch=batches.steps_per_epoch,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
        metric_for_best_model="exact_match",  # the higher the better
    ),
)
with mesh:
    trainer.train(batches, eval_batches)
rt.load_best(trainer)

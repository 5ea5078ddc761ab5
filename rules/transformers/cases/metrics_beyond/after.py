import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from helpers import shrink
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

from data import collate, held_out, rows

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def preprocess(logits, labels):
    # TODO(tpu-port TP303): logits.max(dim=-1): preprocess_logits_for_metrics gets JAX arrays, not torch's tensors. Write it with jax.numpy.
    values, best = logits.max(dim=-1)
    # TODO(tpu-port TP303): best[labels == -100]: preprocess_logits_for_metrics gets JAX arrays, not torch's tensors. Write it with jax.numpy.
    best[labels == -100] = 0
    # TODO(tpu-port TP303): torch.stack: preprocess_logits_for_metrics gets JAX arrays, not torch's tensors. Write it with jax.numpy.
    # TODO(tpu-port TP303): logits.topk(2): preprocess_logits_for_metrics gets JAX arrays, not torch's tensors. Write it with jax.numpy.
    return torch.stack([best, logits.topk(2).indices[..., 1]], dim=-1)


def compute_metrics(prediction):
    return {"second": float(np.mean(prediction.predictions[:, :-1, 1] == prediction.label_ids[:, 1:]))}


model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)
# TODO(tpu-port TP301): TrainingArguments.batch_eval_metrics=True: The port calls compute_metrics once, with the predictions of all batches.
# TODO(tpu-port TP303): include_for_metrics=['inputs', 'loss']: the port's evaluation gives compute_metrics predictions, labels and inputs, not 'loss'. Leave it out.
batches = rt.TrainerBatches(
    rows,
    collate,
    mesh,
    epochs=3.0,  # TrainingArguments' default
    batch_size=8,  # TrainingArguments' default
    seed=42,  # the GPU run's order
)
eval_batches = batches.evaluation(held_out, batch_size=8)

schedule = optax.linear_schedule(5e-5, 0.0, batches.steps)  # TrainingArguments' default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # TrainingArguments' default max_grad_norm
    rt.fused(optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)),  # TrainingArguments' default optim
)
trainer = rt.MetricsTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps_per_epoch,
    ),
    compute_metrics=compute_metrics,
    preprocess_logits_for_metrics=preprocess,
    include_for_metrics=["inputs", "loss"],
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(
    rt.log_every(500, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, output_dir="out")
)
with mesh:
    trainer.train(batches, eval_batches)

# TODO(tpu-port TP303): preprocess_logits_for_metrics: shrink isn't of this file; in the port it gets JAX arrays. Write it with jax.numpy (axis=, not dim=).
batches = rt.TrainerBatches(
    rows,
    collate,
    mesh,
    epochs=3.0,  # TrainingArguments' default
    batch_size=8,  # TrainingArguments' default
    seed=42,  # the GPU run's order
)
eval_batches = batches.evaluation(held_out, batch_size=8)

schedule = optax.linear_schedule(5e-5, 0.0, batches.steps)  # TrainingArguments' default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # TrainingArguments' default max_grad_norm
    rt.fused(optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0)),  # TrainingArguments' default optim
)
again = rt.MetricsTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps_per_epoch,
    ),
    compute_metrics=compute_metrics,
    preprocess_logits_for_metrics=shrink,
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
again.with_training_hooks(
    rt.log_every(500, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, output_dir="again")
)
with mesh:
    again.train(batches, eval_batches)

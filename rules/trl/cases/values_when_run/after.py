import os

import jax
import optax
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import SFTConfig

loss = os.environ["LOSS"]
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
training_args = SFTConfig(output_dir="out", loss_type=loss, label_smoothing_factor=float(os.environ["SMOOTHING"]))
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, **rt.load_arguments(training_args))
batches = rt.SFTBatches.from_args(training_args, load_dataset("trl-lib/Capybara", split="train"), tokenizer, mesh)
if training_args.gradient_checkpointing:
    model = rt.remat(model)

schedule = rt.hf_schedule(
    training_args.lr_scheduler_type,
    training_args.learning_rate,
    warmup_steps=training_args.warmup_steps,
    steps=batches.steps,
    kwargs=training_args.lr_scheduler_kwargs,
)
optimizer = optax.chain(
    rt.clip_by_global_norm(training_args.max_grad_norm),
    rt.hf_optimizer(
        training_args.optim,
        schedule,
        b1=training_args.adam_beta1,
        b2=training_args.adam_beta2,
        eps=training_args.adam_epsilon,
        weight_decay=training_args.weight_decay,
        mask=rt.decay_mask,  # not on norms and biases
        args=training_args.optim_args,
    ),
)
trainer = PeftTrainer(
    model, optimizer, rt.training_config(training_args, batches)
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))
with mesh:
    trainer.train(batches)

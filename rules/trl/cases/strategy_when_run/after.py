import os

import jax
import optax
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import SFTConfig

short = bool(os.environ.get("SHORT"))
args = SFTConfig(
    output_dir="out",
    eval_strategy="no" if short else "steps",
    eval_steps=5,
    save_strategy="no" if short else "epoch",
    logging_strategy="epoch" if short else "steps",
    report_to="none",
)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, **rt.load_arguments(args))
batches = rt.SFTBatches.from_args(args, load_dataset("trl-lib/Capybara", split="train"), tokenizer, mesh)
eval_dataset = load_dataset("trl-lib/Capybara", split="test")
eval_batches = None
if eval_dataset is not None and args.eval_strategy != "no":
    eval_batches = batches.evaluation(eval_dataset, batch_size=args.per_device_eval_batch_size)
if args.gradient_checkpointing:
    model = rt.remat(model)

schedule = rt.hf_schedule(
    args.lr_scheduler_type,
    args.learning_rate,
    warmup_steps=args.warmup_steps,
    steps=batches.steps,
    kwargs=args.lr_scheduler_kwargs,
)
optimizer = optax.chain(
    rt.clip_by_global_norm(args.max_grad_norm),
    rt.hf_optimizer(
        args.optim,
        schedule,
        b1=args.adam_beta1,
        b2=args.adam_beta2,
        eps=args.adam_epsilon,
        weight_decay=args.weight_decay,
        mask=rt.decay_mask,  # not on norms and biases
        args=args.optim_args,
    ),
)
trainer = PeftTrainer(
    model, optimizer, rt.training_config(args, batches, eval=eval_batches is not None)
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.training_hooks(args, batches, schedule))
with mesh:
    trainer.train(batches, eval_batches)

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import optax
from datasets import load_dataset
from transformers import AutoTokenizer, HfArgumentParser

from porter import runtime as rt
from porter.runtime.arguments import trl_arguments

TrainingArguments = trl_arguments("0.12.2", "TrainingArguments")


@dataclass
class ScriptArguments:
    model_name: str = field(default="Qwen/Qwen2.5-0.5B")
    beta: float = field(default=0.1)


parser = HfArgumentParser((ScriptArguments, TrainingArguments))
args, training_args = parser.parse_args_into_dataclasses()
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(
    args.model_name,
    mesh,
    dtype=jnp.float32,
    compute_dtype=jnp.bfloat16 if training_args.bf16 or training_args.fp16 else None,
)
tokenizer = AutoTokenizer.from_pretrained(args.model_name)
batches = rt.PreferenceBatches(
    load_dataset("json", data_files="pairs.jsonl", split="train"),
    tokenizer,
    mesh,
    max_steps=training_args.max_steps,
    epochs=training_args.num_train_epochs,
    batch_size=training_args.per_device_train_batch_size,
    accumulation=training_args.gradient_accumulation_steps,
    max_length=512,
    truncation_mode="keep_end",  # DPOConfig's default
    drop_last=training_args.dataloader_drop_last,
    seed=training_args.seed,  # the GPU run's order
    data_seed=training_args.data_seed,
    trl="0.12.2",  # prepare the rows as this release did
)
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
    # transformers 4.46 divides no accumulated gradient of DPOTrainer by gradient_accumulation_steps
    optax.scale(1 if training_args.deepspeed else training_args.gradient_accumulation_steps),
    rt.clip_by_global_norm(training_args.max_grad_norm),
    rt.hf_optimizer(
        training_args.optim,
        schedule,
        b1=training_args.adam_beta1,
        b2=training_args.adam_beta2,
        eps=training_args.adam_epsilon,
        weight_decay=training_args.weight_decay,
        mask=rt.older_decay_mask(model, "4.46"),  # which norms decay, as in this release
        args=training_args.optim_args,
        transformers="4.46",  # which reads args of some optimizers alone
    ),
)
training_args.resume_from_checkpoint = None  # as train() is given nothing
trainer = rt.PreferenceTrainer(
    model, optimizer, rt.training_config(training_args, batches), loss=rt.dpo_loss(beta=args.beta)
)
trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))
with mesh:
    trainer.train(batches)

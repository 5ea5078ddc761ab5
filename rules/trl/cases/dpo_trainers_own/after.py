"""TRL 0.9 to 0.12 took a DPOConfig and the trainer's older keywords, which win."""
import jax
import optax
from datasets import load_dataset
from transformers import AutoTokenizer, HfArgumentParser

from porter import runtime as rt
from porter.runtime.arguments import trl_arguments

DPOConfig = trl_arguments("0.12.2", "DPOConfig")

(training_args,) = HfArgumentParser(DPOConfig).parse_args_into_dataclasses()
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = rt.load_model("Qwen/Qwen2.5-0.5B", mesh, **rt.load_arguments(training_args))
batches = rt.PreferenceBatches.from_args(
    training_args,
    load_dataset("json", data_files="pairs.jsonl", split="train"),
    tokenizer,
    mesh,
    max_prompt_length=256,
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
    model, optimizer, rt.training_config(training_args, batches), loss=rt.preference_loss(training_args, beta=0.3)
)
trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))
with mesh:
    trainer.train(batches)

import logging
from dataclasses import dataclass, field
from typing import Optional

import jax
import jax.numpy as jnp
import optax
import transformers
from datasets import load_dataset
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import trl_arguments


@dataclass
class ModelArguments:
    model_name_or_path: Optional[str] = field(default="Qwen/Qwen2.5-0.5B")
    use_lora: bool = True


@dataclass
class TrainingArguments(trl_arguments("0.11.4", "TrainingArguments")):
    cache_dir: Optional[str] = field(default=None)


def train():
    parser = transformers.HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()

    if model_args.use_lora and len(training_args.fsdp) > 0:
        logging.warning("FSDP and ZeRO-3 gather the base model's weights, too.")

    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    model = rt.load_model(model_args.model_name_or_path, mesh, dtype=jnp.bfloat16)
    lora = rt.LoraProvider(rt.lora_rules(model, r=8, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
    model = rt.apply_lora(model, lora, mesh, seed=training_args.seed, targets=["q_proj", "v_proj"])

    tokenizer = transformers.AutoTokenizer.from_pretrained(model_args.model_name_or_path)
    rows = load_dataset("json", data_files="rows.jsonl", split="train")
    rows = rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=512), remove_columns=["text"])
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    batches = rt.TrainerBatches.from_args(
        training_args,
        rows,
        collate,
        mesh,
        transformers="4.45",  # steps and mean as with this release
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
        rt.separate_kv(model),  # PEFT trains K and V apart, also where Tunix holds them in one tensor
        rt.clip_by_global_norm(training_args.max_grad_norm),
        rt.hf_optimizer(
            training_args.optim,
            schedule,
            b1=training_args.adam_beta1,
            b2=training_args.adam_beta2,
            eps=training_args.adam_epsilon,
            weight_decay=training_args.weight_decay,
            args=training_args.optim_args,
            transformers="4.45",  # which reads args of some optimizers alone
        ),
    )
    training_args.resume_from_checkpoint = rt.get_last_checkpoint(training_args.output_dir)
    trainer = PeftTrainer(
        model, optimizer, rt.training_config(training_args, batches)
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))

    if rt.get_last_checkpoint(training_args.output_dir):
        with mesh:
            trainer.train(batches)
    else:
        with mesh:
            trainer.train(batches)

    rt.save_adapter(model, training_args.output_dir)


if __name__ == "__main__":
    train()

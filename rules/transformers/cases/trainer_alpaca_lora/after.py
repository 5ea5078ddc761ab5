"""alpaca-lora style."""
import os
from typing import List

import fire
import jax
import jax.numpy as jnp
import optax
import torch
import transformers
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer

from porter import runtime as rt
from porter.runtime.arguments import trl_arguments


def train(
    base_model: str = "meta-llama/Llama-3.1-8B",
    data_path: str = "yahma/alpaca-cleaned",
    output_dir: str = "./lora-alpaca",
    batch_size: int = 128,
    micro_batch_size: int = 4,
    num_epochs: int = 3,
    learning_rate: float = 3e-4,
    cutoff_len: int = 256,
    val_set_size: int = 2000,
    lora_r: int = 8,
    lora_alpha: int = 16,
    lora_dropout: float = 0.05,
    lora_target_modules: List[str] = ["q_proj", "v_proj"],
    train_on_inputs: bool = True,
    resume_from_checkpoint: str = None,
):
    gradient_accumulation_steps = batch_size // micro_batch_size
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    ddp = world_size != 1
    if ddp:
        gradient_accumulation_steps = gradient_accumulation_steps // world_size

    mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    model = rt.load_model(base_model, mesh, dtype=jnp.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(base_model)
    tokenizer.pad_token_id = 0
    tokenizer.padding_side = "left"

    def tokenize(prompt, add_eos_token=True):
        result = tokenizer(prompt, truncation=True, max_length=cutoff_len, padding=False, return_tensors=None)
        if result["input_ids"][-1] != tokenizer.eos_token_id and len(result["input_ids"]) < cutoff_len and add_eos_token:
            result["input_ids"].append(tokenizer.eos_token_id)
            result["attention_mask"].append(1)
        result["labels"] = result["input_ids"].copy()
        return result

    def generate_and_tokenize_prompt(data_point):
        full_prompt = f"### Instruction: {data_point['instruction']}\n### Response: {data_point['output']}"
        tokenized_full_prompt = tokenize(full_prompt)
        return tokenized_full_prompt

    config = rt.LoraProvider(
        rt.lora_rules(
            model, r=lora_r, lora_alpha=lora_alpha, target_modules=lora_target_modules, lora_dropout=lora_dropout
        ),
    )
    model = rt.apply_lora(model, config, mesh, seed=42, targets=lora_target_modules)

    if data_path.endswith(".json"):
        data = load_dataset("json", data_files=data_path)
    else:
        data = load_dataset(data_path)

    if resume_from_checkpoint:
        checkpoint_name = os.path.join(resume_from_checkpoint, "pytorch_model.bin")
        if not os.path.exists(checkpoint_name):
            checkpoint_name = os.path.join(resume_from_checkpoint, "adapter_model.bin")
            resume_from_checkpoint = False
        if os.path.exists(checkpoint_name):
            adapters_weights = torch.load(checkpoint_name)
            rt.load_adapter(model, adapters_weights)

    rt.print_trainable_parameters(model)

    if val_set_size > 0:
        train_val = data["train"].train_test_split(test_size=val_set_size, shuffle=True, seed=42)
        train_data = train_val["train"].shuffle().map(generate_and_tokenize_prompt)
        val_data = train_val["test"].shuffle().map(generate_and_tokenize_prompt)
    else:
        train_data = data["train"].shuffle().map(generate_and_tokenize_prompt)
        val_data = None

    training_args = trl_arguments("0.27.2", "TrainingArguments")(
        per_device_train_batch_size=micro_batch_size,
        gradient_accumulation_steps=gradient_accumulation_steps,
        warmup_steps=100,
        num_train_epochs=num_epochs,
        learning_rate=learning_rate,
        fp16=True,
        logging_steps=10,
        optim="adamw_torch",
        eval_strategy="steps" if val_set_size > 0 else "no",
        save_strategy="steps",
        eval_steps=200 if val_set_size > 0 else None,
        save_steps=200,
        output_dir=output_dir,
        save_total_limit=3,
        ddp_find_unused_parameters=False if ddp else None,
        report_to=None,
    )
    batches = rt.TrainerBatches.from_args(
        training_args,
        train_data,
        transformers.DataCollatorForSeq2Seq(
            tokenizer, pad_to_multiple_of=8, return_tensors="np", padding=True
        ),
        mesh,
        mean_over=rt.mean_over(model, "4.57"),  # by micro-batch for multimodal models alone
        transformers="4.57",  # steps and mean as with this release
    )
    eval_batches = None
    if val_data is not None and training_args.eval_strategy != "no":
        eval_batches = batches.evaluation(val_data, batch_size=training_args.per_device_eval_batch_size)
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
            transformers="4.57",  # which reads args of some optimizers alone
        ),
    )
    training_args.resume_from_checkpoint = resume_from_checkpoint
    trainer = PeftTrainer(
        model, optimizer, rt.training_config(training_args, batches, eval=eval_batches is not None)
    ).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
    trainer.with_training_hooks(rt.training_hooks(training_args, batches, schedule))

    with mesh:
        trainer.train(batches, eval_batches)
    rt.save_adapter(model, output_dir)


if __name__ == "__main__":
    fire.Fire(train)

"""The model comes from a function, its name and bits from the command line; what Unsloth alone can do is said."""

import argparse
import math

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def load(name, four):
    model = rt.load_model(name, mesh, dtype=jnp.bfloat16, quantization="nf4" if four else None)
    tokenizer = rt.pad_as_unsloth(rt.as_transformers_4(AutoTokenizer.from_pretrained(name)), model, "2026.8.19")
    lora = rt.LoraProvider(
        rt.lora_rules(
            model,
            r=8,
            lora_alpha=8,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        ),
    )
    model = rt.apply_lora(
        model, lora, mesh, seed=1, targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    )
    return model, tokenizer


parser = argparse.ArgumentParser()
parser.add_argument("--model", default="unsloth/gemma-3-1b-it")
parser.add_argument("--four", action="store_true")
args = parser.parse_args()

model, tokenizer = load(args.model, args.four)
tokenizer = rt.get_chat_template(tokenizer, chat_template="gemma-3")
batches = rt.SFTBatches(
    load_dataset("trl-lib/Capybara", split="train"),
    tokenizer,
    mesh,
    epochs=3.0,  # SFTConfig's default
    batch_size=4,  # Unsloth's default
    accumulation=2,  # Unsloth's default
    max_length=1024,  # the model's max_seq_length, as in Unsloth
    label_mask=rt.ResponsesOnly(tokenizer=tokenizer),
    seed=3407,  # the GPU run's order
    trl="0.24.0",  # prepare the rows as this release did
    unsloth_counts="2026.8.19",  # a step's loss is over the tokens that are predicted, as Unsloth's Trainer counts
    unsloth="2026.8.19",  # texts are tokenised as Unsloth does: no end token is added
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in Unsloth)

warmup_steps = math.ceil(0.1 * batches.steps)  # Unsloth's default
schedule = optax.join_schedules(
    [optax.linear_schedule(0.0, 5e-5, warmup_steps), optax.linear_schedule(5e-5, 0.0, batches.steps - warmup_steps)],
    [warmup_steps],
)  # Unsloth's default learning_rate
optimizer = optax.chain(
    rt.separate_kv(model),  # PEFT trains K and V apart, also where Tunix holds them in one tensor
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(
        schedule,
        b1=0.9,
        b2=0.999,
        eps=1e-8,
        weight_decay=0.001,  # Unsloth's default
    ),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("out"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(1, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.merge_and_unload(model, unquantized=True).save_pretrained("merged")
tokenizer.save_pretrained("merged")

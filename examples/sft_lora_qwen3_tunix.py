"""Fine-tune Qwen3 0.6B on multi-turn conversations with LoRA, on one GPU."""

import math

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL = "Qwen/Qwen3-0.6B"
LEARNING_RATE = 2e-4


def long_enough(row):
    """Conversations of one sentence teach nothing."""
    return sum(len(message["content"]) for message in row["messages"]) > 100


tokenizer = AutoTokenizer.from_pretrained(MODEL)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(MODEL, mesh, dtype=jnp.bfloat16)
dataset = load_dataset("trl-lib/Capybara", split="train").filter(long_enough).select_columns(["messages"])

# Adapters on every linear layer but the head
peft_config = rt.LoraProvider([
    qwix.LoraRule(
        module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
        rank=16,
        alpha=32.0,
        dropout=0.05,
        lora_a_initializer=rt.PEFT_INIT,
    ),
])
batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    epochs=1,
    batch_size=4,
    accumulation=2,
    max_length=1024,
    assistant_only_loss=True,
    seed=42,  # the GPU run's order
)
model = rt.apply_lora(model, peft_config, mesh, seed=42, targets="all-linear")
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

warmup_steps = math.ceil(0.03 * batches.steps)
schedule = optax.warmup_cosine_decay_schedule(
    0.0, LEARNING_RATE, warmup_steps=warmup_steps, decay_steps=max(batches.steps, warmup_steps + 1)
)
optimizer = optax.chain(
    optax.clip_by_global_norm(0.3),  # QLoRA's paper
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("qwen3-capybara"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(batches.steps_per_epoch), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "qwen3-capybara", tokenizer=tokenizer)

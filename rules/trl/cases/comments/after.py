"""Fine-tune Qwen3 with QLoRA; every setting says why."""
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

tokenizer = AutoTokenizer.from_pretrained(MODEL)
# The base, frozen
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(
    MODEL,  # the small one
    mesh,
    dtype=jnp.bfloat16,  # Ampere and later
    quantization="nf4",  # normal float
)
dataset = load_dataset("trl-lib/Capybara", split="train")

# Adapters as in the QLoRA paper
peft_config = rt.LoraProvider([
    # every linear layer of a block
    # r: paper value
    # lora_dropout: a little
    qwix.LoraRule(
        module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
        rank=64,
        alpha=16.0,
        dropout=0.05,
        lora_a_initializer=rt.PEFT_INIT,
    ),
])

batches = rt.SFTBatches(
    dataset,  # all of it
    tokenizer,
    mesh,
    # How long and how large
    epochs=1,  # one is enough
    batch_size=4,
    accumulation=4,  # 16 rows a step
    # cut what is longer; the longest tenth of the rows
    max_length=2048,
    seed=42,  # the GPU run's order
)
model = rt.apply_lora(
    model,
    peft_config,
    mesh,
    seed=42,
    targets=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
)
# ---- Memory ----
# gradient_checkpointing: trades time for memory
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time

# Optimizer
warmup_steps = math.ceil(0.03 * batches.steps)  # QLoRA: 3 %
# learning_rate: paper value
schedule = optax.join_schedules(
    [optax.linear_schedule(0.0, 2e-4, warmup_steps), optax.constant_schedule(2e-4)], [warmup_steps]
)
optimizer = optax.chain(
    optax.clip_by_global_norm(0.3),  # QLoRA
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("out"),  # on the big disk
        checkpointing_options=ocp.CheckpointManagerOptions(
            # Where it is saved and how it reports
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(100),  # every quarter of an hour
            max_to_keep=2,
        ),
        metrics_logging_options=rt.metrics_options(
            # all of it in one place
            ["tensorboard"],
            log_dir="out/runs",
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
# logging_steps: often enough
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out", tokenizer=tokenizer)  # the adapter alone

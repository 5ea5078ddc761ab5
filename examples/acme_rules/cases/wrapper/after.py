"""Fine-tune Acme's own model with Acme's own settings."""

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((4, 2), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("acme/acme-lm-1b", mesh, dtype=jnp.bfloat16, family="acme_lm.toml")
dataset = load_dataset("json", data_files="support.jsonl", split="train")
tokenizer = AutoTokenizer.from_pretrained("acme/acme-lm-1b")
batches = rt.SFTBatches(
    dataset,
    tokenizer,
    mesh,
    max_steps=500,
    batch_size=64,  # 8 a GPU on 8 GPUs
    processes=8,
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
lora = rt.LoraProvider([
    qwix.LoraRule(
        module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
        rank=64,
        alpha=128.0,
        dropout=0.05,
        lora_a_initializer=rt.PEFT_INIT,
    ),
])
model = rt.apply_lora(model, lora, mesh, seed=42, targets="all-linear")
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(1e-4, 0.0, batches.steps)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = PeftTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("support"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "acme/support")

import jax
import jax.numpy as jnp
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
pairs = load_dataset("trl-lib/ultrafeedback_binarized", split="train")

batches = rt.PreferenceBatches(
    pairs,
    tokenizer,
    mesh,
    epochs=3.0,  # DPOConfig's default
    batch_size=2,
    accumulation=4,
    max_length=768,
    seed=42,  # the GPU run's order
)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=16, alpha=32.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=42, targets=["q_proj", "v_proj"])
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(1e-6, 0.0, batches.steps)  # DPOConfig's default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # DPOConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = rt.PreferenceTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
    ),
    loss=rt.dpo_loss(
        beta=0.05,  # a loose leash
        loss_type=["sigmoid", "sft"],
        loss_weights=[1.0, 0.2],
    ),
)
trainer.with_training_hooks(
    rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, output_dir="dpo")
)
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "dpo", tokenizer=tokenizer)

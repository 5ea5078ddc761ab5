import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)
batches = rt.ORPOBatches(
    load_dataset("json", data_files="pairs.jsonl", split="train"),
    tokenizer,
    mesh,
    epochs=3.0,  # ORPOConfig's default
    batch_size=8,  # ORPOConfig's default
    max_length=512,
    max_prompt_length=128,
    truncation_mode="keep_end",  # ORPOConfig's default
    seed=42,  # the GPU run's order
    trl="0.27.2",  # prepare the rows as this release did
)
lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT),
])
model = rt.apply_lora(model, lora, mesh, seed=42, targets="all-linear")
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(1e-6, 0.0, batches.steps)  # ORPOConfig's default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # ORPOConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = rt.PreferenceTrainer(
    model,
    optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
        checkpoint_root_directory=rt.fresh_dir("orpo"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
    loss=rt.orpo_loss(beta=0.2),
)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)

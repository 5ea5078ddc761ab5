"""Distil a larger Qwen3 into a smaller one with LoRA."""
import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import TrainingConfig

from porter import runtime as rt

STUDENT = "Qwen/Qwen3-0.6B"

tokenizer = AutoTokenizer.from_pretrained(STUDENT)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(STUDENT, mesh, dtype=jnp.bfloat16)
teacher = rt.load_model("Qwen/Qwen3-1.7B", mesh, dtype=jnp.bfloat16)  # frozen
dataset = load_dataset("json", data_files="chats.jsonl", split="train")

lora = rt.LoraProvider([
    qwix.LoraRule(module_path=".*/(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", rank=16, alpha=32.0, lora_a_initializer=rt.PEFT_INIT),
])
model = rt.apply_lora(model, lora, mesh, seed=42, targets="all-linear")
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)
batches = rt.GKDBatches(
    dataset,
    tokenizer,
    mesh,
    max_steps=100,
    batch_size=4,
    accumulation=2,
    max_length=512,
    seed=42,  # the GPU run's order
)

schedule = optax.linear_schedule(1e-4, 0.0, batches.steps)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # GKDConfig's default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
)
trainer = rt.DistillationTrainer(
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
    teacher_model=teacher,
    beta=0.3,  # nearer to the forward divergence
)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)
rt.save_adapter(model, "out/adapter", tokenizer=tokenizer)

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import os
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.float32, compute_dtype=jnp.bfloat16)
batches = rt.SFTBatches(
    load_dataset("imdb", split="train"),
    tokenizer,
    mesh,
    epochs=3.0,  # SFTConfig's default
    batch_size=8,  # SFTConfig's default
    max_length=1024,  # SFTConfig's default
    seed=42,  # the GPU run's order
)
model = rt.remat(model)  # gradient checkpointing, a decoder layer at a time (on by default in TRL)

schedule = optax.linear_schedule(2e-5, 0.0, batches.steps)  # SFTConfig's default learning_rate
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
        checkpoint_root_directory=rt.fresh_dir("o"),
        checkpointing_options=ocp.CheckpointManagerOptions(
            save_decision_policy=ocp.checkpoint_managers.FixedIntervalPolicy(500), max_to_keep=None
        ),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
if os.environ.get("GO"):
    with mesh:
        trainer.train(batches)
for k in range(3):
    rt.start_anew(trainer)  # its schedule from the start; weights and moments go on
    with mesh:
        trainer.train(batches)  # thrice
# TODO(tpu-port TP111): trainer.train() stands inside other code on its line. Write it as a statement of its own line, and port again.
if k: print("a"); trainer.train(); print("b")
def go():
    with mesh:
        trainer.train(batches)
# TODO(tpu-port TP111): trainer.train() stands inside other code on its line. Write it as a statement of its own line, and port again.
x = 1; trainer.train(); y = 2
# TODO(tpu-port TP111): trainer.train() stands inside other code on its line. Write it as a statement of its own line, and port again.
g = lambda: trainer.train()
while True: pass
try:
    rt.start_anew(trainer)  # its schedule from the start; weights and moments go on
    with mesh:
        trainer.train(batches)
finally: print(1)
# TODO(tpu-port TP111): trainer.train() stands inside other code on its line. Write it as a statement of its own line, and port again.
if trainer.train(): pass

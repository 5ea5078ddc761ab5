import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2-0.5B")
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("Qwen/Qwen2-0.5B", mesh, dtype=jnp.float32)
collator = rt.CompletionOnly("### Answer:", tokenizer=tokenizer)


def to_texts(rows):
    return [f"### Question: {q}\n### Answer: {a}" for q, a in zip(rows["question"], rows["answer"])]


batches = rt.SFTBatches(
    load_dataset("json", data_files="qa.jsonl", split="train"),
    tokenizer,
    mesh,
    epochs=1,
    batch_size=2,
    max_length=512,
    formatting_func=to_texts,
    label_mask=collator,
    seed=42,  # the GPU run's order
    trl="0.12.2",  # prepare the rows as this release did
)

schedule = optax.linear_schedule(5e-5, 0.0, batches.steps)  # TrainingArguments' default learning_rate
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),  # TrainingArguments' default max_grad_norm
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0),
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
trainer.with_training_hooks(
    rt.log_every(
        500,
        schedule=schedule,
        steps_per_epoch=batches.steps_per_epoch,
        transformers="4.46",  # its lines have the next step's rate
    ),
)
with mesh:
    trainer.train(batches)

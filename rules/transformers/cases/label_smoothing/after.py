"""Label smoothing under transformers' Trainer."""
import jax
import jax.numpy as jnp
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer, DataCollatorForSeq2Seq
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=42, targets=["q_proj", "v_proj"])


def tokenize(row):
    ids = tokenizer(row["text"], truncation=True, max_length=256)["input_ids"]
    return {"input_ids": ids, "labels": list(ids)}


rows = load_dataset("stanfordnlp/imdb", split="train").map(tokenize, remove_columns=["text", "label"])
parts = rows.train_test_split(test_size=0.1, seed=0)
batches = rt.TrainerBatches(
    parts["train"],
    DataCollatorForSeq2Seq(tokenizer),
    mesh,
    epochs=3.0,  # TrainingArguments' default
    batch_size=4,
    accumulation=2,
    label_smoothing=0.1,  # the labels are noisy
    seed=42,  # the GPU run's order
)
eval_batches = batches.evaluation(parts["test"], batch_size=8)

schedule = optax.linear_schedule(1e-3, 0.0, batches.steps)
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
        eval_every_n_steps=rt.interval(3, batches.steps, last=True),
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(
    rt.log_every(500, schedule=schedule, steps_per_epoch=batches.steps_per_epoch, output_dir="out")
)
with mesh:
    trainer.train(batches, eval_batches)

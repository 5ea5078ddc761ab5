import jax
import optax
from datasets import load_dataset
from transformers import AutoTokenizer, DataCollatorForLanguageModeling
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("Qwen/Qwen3-0.6B", mesh)
dataset = load_dataset("json", data_files="train.jsonl", split="train").map(lambda row: tokenizer(row["text"]))
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
batches = rt.TrainerBatches(
    dataset.select_columns(["input_ids"]),
    collator,
    mesh,
    epochs=1,  # torch's default
    batch_size=4,
    inputs={"input_ids": "input_ids", "attention_mask": "attention_mask", "labels": "input_ids"},  # the loop's own
    remove_unused_columns=False,
    mean_over="micro_batch",
    seed=42,  # another order than the GPU run's
)

schedule = optax.constant_schedule(1e-5)
optax_optimizer = optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01)
trainer = PeftTrainer(
    model,
    optax_optimizer,
    TrainingConfig(
        max_steps=batches.steps,
        gradient_accumulation_steps=batches.accumulation,
        eval_every_n_steps=batches.steps,
    ),
).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
trainer.with_training_hooks(rt.log_every(10, schedule=schedule, steps_per_epoch=batches.steps_per_epoch))
with mesh:
    trainer.train(batches)

import math

import jax
import jax.numpy as jnp
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer, DataCollatorForSeq2Seq
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL = "Qwen/Qwen3-0.6B"
EPOCHS = 3
BATCH = 4
ACCUMULATE = 2

tokenizer = AutoTokenizer.from_pretrained(MODEL)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(MODEL, mesh, dtype=jnp.float32)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=16.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=7, targets=["q_proj", "v_proj"])
rt.print_trainable_parameters(model)


def tokenize(row):
    prompt = tokenizer(row["instruction"] + "\n")["input_ids"]
    answer = tokenizer(row["output"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


dataset = load_dataset("json", data_files="train.jsonl", split="train")
dataset = dataset.map(tokenize, remove_columns=dataset.column_names)
collator = DataCollatorForSeq2Seq(tokenizer, padding=True)

total_steps = EPOCHS * math.ceil(len(dataset) / BATCH) // ACCUMULATE

batches = rt.TrainerBatches(
    dataset,
    collator,
    mesh,
    epochs=EPOCHS,
    batch_size=BATCH,
    accumulation=ACCUMULATE,
    remove_unused_columns=False,
    mean_over="micro_batch",
    seed=7,  # another order than the GPU run's
)

schedule = optax.join_schedules(
    [optax.linear_schedule(0.0, 1e-3, 10), optax.linear_schedule(1e-3, 0.0, total_steps - 10)], [10]
)
optax_optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01),
)
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

rt.save_adapter(model, "out")
tokenizer.save_pretrained("out")

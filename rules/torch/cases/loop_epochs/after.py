import math

import jax
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer, DataCollatorForSeq2Seq
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

MODEL = "Qwen/Qwen3-0.6B"
EPOCHS = 3
BATCH = 16

tokenizer = AutoTokenizer.from_pretrained(MODEL)
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model(MODEL, mesh)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=16.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=7, targets=["q_proj", "v_proj"])


def tokenize(row):
    prompt = tokenizer(row["instruction"] + "\n")["input_ids"]
    answer = tokenizer(row["output"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


data = load_dataset("json", data_files="train.jsonl", split="train").train_test_split(test_size=0.2, seed=7)
data = data.map(tokenize, remove_columns=data["train"].column_names)
collator = DataCollatorForSeq2Seq(tokenizer, padding=True)

total_steps = EPOCHS * math.ceil(len(data["train"]) / BATCH)


def evaluate(model, loader):
    """The mean loss of a validation batch."""
    total = 0.0
    for loss in loader:
        total += loss
    return total / len(loader)


best, waited = float("inf"), 0
batches = rt.TrainerBatches(
    data["train"],
    collator,
    mesh,
    epochs=EPOCHS,
    batch_size=BATCH,
    remove_unused_columns=False,
    mean_over="micro_batch",
    seed=7,  # another order than the GPU run's
)

schedule = optax.join_schedules(
    [optax.linear_schedule(0.0, 1e-3, 2), optax.linear_schedule(1e-3, 0.0, total_steps - 2)], [2]
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
val_loader = rt.EvaluationLosses(trainer, batches.evaluation(data["test"], batch_size=BATCH))
for epoch in range(EPOCHS):
    running = 0.0
    with mesh:
        losses = rt.train_epoch(trainer, batches)
    running += losses.sum()
    val_loss = evaluate(model, val_loader)
    print(f"epoch {epoch}: train {running / batches.gpu_batches:.3f}, val {val_loss:.3f}, {math.exp(val_loss):.2f}")
    rt.save_adapter(model, f"out/epoch-{epoch}")
    if val_loss < best:
        best, waited = val_loss, 0
        rt.save_adapter(model, "out/best")
        tokenizer.save_pretrained("out/best")
    else:
        waited += 1
        if waited >= 2:
            print("no better")
            break
trainer.close()

print(f"best {best:.3f}")

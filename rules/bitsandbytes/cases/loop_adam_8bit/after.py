import jax
import optax
import qwix
from datasets import load_dataset
from transformers import AutoTokenizer, DataCollatorForLanguageModeling
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
model = rt.load_model("Qwen/Qwen3-0.6B", mesh)
lora = rt.LoraProvider(
    [qwix.LoraRule(module_path=".*/(q_proj|v_proj)", rank=8, alpha=8.0, lora_a_initializer=rt.PEFT_INIT)]
)
model = rt.apply_lora(model, lora, mesh, seed=42, targets=["q_proj", "v_proj"])
rows = load_dataset("json", data_files="rows.jsonl", split="train")
rows = rows.map(lambda row: tok(row["text"], truncation=True, max_length=32), remove_columns=rows.column_names)
batches = rt.TrainerBatches(
    rows,
    DataCollatorForLanguageModeling(tok, mlm=False),
    mesh,
    epochs=2,
    batch_size=2,
    remove_unused_columns=False,
    mean_over="micro_batch",
    seed=42,  # another order than the GPU run's
)

schedule = optax.constant_schedule(2e-4)
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
rt.save_adapter(model, "out")

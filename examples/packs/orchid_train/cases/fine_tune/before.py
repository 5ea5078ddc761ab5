"""Fine-tune with Orchid's trainer."""

from datasets import load_dataset
from orchid_train import OrchidConfig, OrchidTrainer, freeze_router, on_cluster
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
model = freeze_router(model)
if on_cluster():
    print("on the cluster")
else:
    print("on my machine")
trainer = OrchidTrainer(
    model,
    OrchidConfig("support", max_steps=200, rows_per_gpu=8),
    train_dataset=load_dataset("json", data_files="support.jsonl", split="train"),
    team="support",
)
trainer.train()
trainer.publish("orchid/support", wait=True)

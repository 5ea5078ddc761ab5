from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

MODEL, NAME = "Qwen/Qwen3-4B", "capybara"
LR, EPOCHS = 2e-5, 3
TINY = False
BATCH = 1 if TINY else 4
ACCUMULATION = 32 // BATCH
COMMON = dict(learning_rate=LR, num_train_epochs=EPOCHS)
LOGGING = {"logging_steps": 25, "report_to": "none"}

trainer = SFTTrainer(
    model=MODEL,
    args=SFTConfig(
        output_dir=f"out/{NAME}-{EPOCHS}ep",
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATION,
        max_length=2 * 1024,
        **COMMON,
        **LOGGING,
    ),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
trainer.train()

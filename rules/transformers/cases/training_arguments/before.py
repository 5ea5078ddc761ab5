import transformers
from datasets import load_dataset
from trl import SFTTrainer

arguments = transformers.TrainingArguments(
    "out",
    max_steps=100,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    logging_steps=1,
    save_steps=0.25,
    dataloader_num_workers=4,
    ddp_find_unused_parameters=False,
    remove_unused_columns=False,
    report_to="none",
)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=arguments, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()

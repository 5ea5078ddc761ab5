from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("trl-lib/Capybara")
args = SFTConfig(
    output_dir="out",
    num_train_epochs=3,
    eval_strategy="epoch",
    save_strategy="epoch",
    save_total_limit=1,
    logging_strategy="epoch",
    eval_packing=False,
    packing=True,
    report_to=["tensorboard", "wandb"],
)
trainer = SFTTrainer(
    model="meta-llama/Llama-3.1-8B-Instruct",
    args=args,
    train_dataset=dataset["train"],
    eval_dataset=dataset["test"],
)
trainer.train(resume_from_checkpoint=True)
print(trainer.evaluate()["eval_loss"])

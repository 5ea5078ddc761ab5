from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

if __name__ == "__main__":
    dataset = load_dataset("trl-lib/Capybara", split="train")
    trainer = SFTTrainer(
        "google/gemma-3-1b-it",
        args=SFTConfig("out", max_steps=20, report_to="none", save_strategy="no"),
        train_dataset=dataset,
    )
    trainer.train()

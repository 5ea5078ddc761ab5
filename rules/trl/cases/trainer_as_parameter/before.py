from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer


def run(trainer: SFTTrainer, folder: str) -> None:
    trainer.train()
    metrics = trainer.evaluate()
    print(metrics)
    trainer.save_model(folder)


def main() -> None:
    rows = load_dataset("trl-lib/Capybara", split="train").train_test_split(0.1)
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    trainer = SFTTrainer(
        "Qwen/Qwen3-0.6B",
        args=SFTConfig("out", max_steps=5, report_to="none"),
        train_dataset=rows["train"],
        eval_dataset=rows["test"],
        processing_class=tokenizer,
    )
    run(trainer, "out/last")


main()

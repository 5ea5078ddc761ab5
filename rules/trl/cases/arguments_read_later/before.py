from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="out/run-1",
    learning_rate=1e-4,
    max_steps=50,
    report_to="none",
)
print(f"training for {args.max_steps} steps into {args.output_dir}")
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
trainer.save_model(args.output_dir + "/final")

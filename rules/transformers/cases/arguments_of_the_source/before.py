from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", max_steps=5, report_to="none")
args = args.set_lr_scheduler(name="cosine", warmup_steps=2)
print(args.device, args.world_size)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()

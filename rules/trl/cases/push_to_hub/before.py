from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", max_steps=10, report_to="none", push_to_hub=True, hub_model_id="me/capybara")
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
if trainer.accelerator.is_main_process:
    print("done")
trainer.accelerator.print("pushing")
trainer.push_to_hub(dataset_name="trl-lib/Capybara")

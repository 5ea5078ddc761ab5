from datasets import load_dataset
from trl import SFTConfig as Config
from trl import SFTTrainer as S

s = S(
    "Qwen/Qwen3-1.7B",
    Config("runs/a", max_steps=100, optim="adamw_torch", lr_scheduler_type="constant", report_to="none", seed=7),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
s.train()
s.save_model("runs/a/last")

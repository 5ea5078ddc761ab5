import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

torch.cuda.init()
bias = torch.zeros(8, device="cuda")


def describe():
    if not torch.cuda.is_available():
        return "no GPU"
    return torch.cuda.get_device_name(0)


for place in range(torch.cuda.device_count()):
    print(place, torch.cuda.get_device_name(place))
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
trainer.train()
print(describe(), bias)

import sys

from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer


def freeze(model):
    for parameter in model.parameters():
        parameter.requires_grad = False


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
print(type(model), model)
freeze(model)
model = PeftModel.from_pretrained(model, "adapter", is_trainable=False)
if len(sys.argv) > 1:
    model = sys.modules["mine"].wrapped
trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
trainer.train()

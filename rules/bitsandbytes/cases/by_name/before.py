import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
trainer = SFTTrainer(
    model="Qwen/Qwen3-8B",
    args=SFTConfig(
        output_dir="out",
        num_train_epochs=1,
        report_to="none",
        model_init_kwargs={"dtype": torch.bfloat16, "quantization_config": quantization},
    ),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
)
trainer.train()

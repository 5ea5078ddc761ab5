from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def main():
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(output_dir="o", report_to="none"),
        train_dataset=load_dataset("imdb", split="train"),
        peft_config=LoraConfig(r=4, target_modules=["q_proj"]),
    )
    trainer.train()
    trainer.save_model("o")


main()

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


def build(model_id: str, rank: int = 16):
    model = AutoModelForCausalLM.from_pretrained(model_id)
    tokenizer = AutoTokenizer.from_pretrained(model_id)
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj"])
    args = SFTConfig(output_dir=f"out/{model_id}", num_train_epochs=1, report_to="none")
    dataset = load_dataset("trl-lib/Capybara", split="train")
    trainer = SFTTrainer(model, args, train_dataset=dataset, processing_class=tokenizer, peft_config=lora)
    trainer.train()
    trainer.save_model(f"out/{model_id}/adapter")


build("Qwen/Qwen3-0.6B")

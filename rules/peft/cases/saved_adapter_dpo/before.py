from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = PeftModel.from_pretrained(base, "out/sft", is_trainable=True)  # the adapter of the first stage
model.print_trainable_parameters()
trainer = DPOTrainer(
    model,
    args=DPOConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/ultrafeedback_binarized", split="train"),
    processing_class=tokenizer,
)
trainer.train()
trainer.save_model("out/dpo")

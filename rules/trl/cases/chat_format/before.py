from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer, setup_chat_format

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B")
model, tokenizer = setup_chat_format(model, tokenizer)
trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=10),
    train_dataset=load_dataset("json", data_files="chats.jsonl", split="train"),
    processing_class=tokenizer,
)
trainer.train()

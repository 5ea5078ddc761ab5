from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
from unsloth.chat_templates import get_chat_template

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = get_chat_template(
    tokenizer,
    chat_template="qwen-2.5",  # as in the paper
)
other = get_chat_template(tokenizer, chat_template="vicuna")
trainer = SFTTrainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16"),
    args=SFTConfig("out", max_steps=5),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=tokenizer,
)
trainer.train()

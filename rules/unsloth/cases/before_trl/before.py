from unsloth import FastLanguageModel
from unsloth.chat_templates import get_chat_template, standardize_sharegpt, train_on_responses_only
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Llama-3.2-1B-Instruct", max_seq_length=4096)
model = FastLanguageModel.get_peft_model(model, r=16, lora_alpha=16)
tokenizer = get_chat_template(tokenizer, chat_template="llama-3.1")


def to_text(rows):
    return {"text": [tokenizer.apply_chat_template(turns, tokenize=False) for turns in rows["conversations"]]}


dataset = standardize_sharegpt(load_dataset("mlabonne/FineTome-100k", split="train")).map(to_text, batched=True)
trainer = SFTTrainer(
    model=model,
    tokenizer=tokenizer,
    train_dataset=dataset,
    args=SFTConfig(max_steps=60, lr_scheduler_type="cosine", max_length=512),
)
trainer = train_on_responses_only(trainer)
print(tokenizer.decode(trainer.train_dataset[5]["input_ids"]))
stats = trainer.train()
print(f"{stats.metrics['train_runtime']} seconds")
tokenizer.push_to_hub("me/llama")

from datasets import load_dataset
from transformers import DataCollatorForSeq2Seq
from trl import SFTConfig, SFTTrainer
from unsloth import FastLanguageModel
from unsloth.chat_templates import train_on_responses_only

model, tokenizer = FastLanguageModel.from_pretrained("Qwen/Qwen3-4B", load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=32, lora_alpha=32)


def to_text(rows):
    return {"text": [tokenizer.apply_chat_template(row, tokenize=False) for row in rows["messages"]]}


dataset = load_dataset("HuggingFaceH4/no_robots", split="train").map(to_text, batched=True)

trainer = SFTTrainer(
    model=model,
    tokenizer=tokenizer,
    train_dataset=dataset,
    data_collator=DataCollatorForSeq2Seq(tokenizer=tokenizer),
    args=SFTConfig(output_dir="out", max_steps=30, dataset_text_field="text", max_length=2048),
)
# Only the answers count
trainer = train_on_responses_only(
    trainer,
    instruction_part="<|im_start|>user\n",
    response_part="<|im_start|>assistant\n",
)
trainer.train()
trainer.save_model("out/adapter")
model.save_pretrained_merged("out/merged", tokenizer, save_method="merged_16bit")

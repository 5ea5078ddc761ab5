"""Rows tokenised by the script and transformers' own Trainer, as written for transformers 4.40."""

import pandas as pd
from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

# pip install transformers==4.40.2 peft==0.10.0
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1").cuda()

frame = pd.read_csv("reviews.csv")
dataset = Dataset.from_pandas(frame[["review"]])
dataset = dataset.map(
    lambda row: tokenizer(row["review"], truncation=True, max_length=128), remove_columns=dataset.column_names
)

trainer = Trainer(
    model=model,
    train_dataset=dataset,
    args=TrainingArguments(
        output_dir="mistral",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=2e-5,
        num_train_epochs=1,
        evaluation_strategy="no",
        save_strategy="epoch",
    ),
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
trainer.save_model("mistral/final")
tokenizer.save_pretrained("mistral/final")

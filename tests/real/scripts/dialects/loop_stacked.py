"""Rows that torch's own collation stacks: no collate_fn, tensors with an axis that the tokenizer has left."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.float32)


class Rows(Dataset):
    def __init__(self, texts):
        self.rows = [
            tokenizer(text, truncation=True, max_length=32, padding="max_length", return_tensors="pt") for text in texts
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return {"input_ids": row["input_ids"], "attention_mask": row["attention_mask"], "text": str(index)}


rows = load_dataset("json", data_files="train.jsonl", split="train")
loader = DataLoader(Rows(rows["output"]), batch_size=3, shuffle=False)
no_decay = ["bias", "layernorm.weight"]
groups = [
    {
        "params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)],
        "weight_decay": 0.5,
    },
    {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-3)

model.train()
for epoch in range(2):
    for batch in loader:
        optimizer.zero_grad()
        ids = batch["input_ids"].squeeze(1)
        mask = batch["attention_mask"].squeeze(1)
        outputs = model(input_ids=ids, attention_mask=mask, labels=ids.clone())
        outputs.loss.backward()
        optimizer.step()

model.save_pretrained("out")

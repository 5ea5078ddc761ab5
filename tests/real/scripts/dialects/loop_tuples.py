"""A batch that is a tuple: its parts are told by their places."""

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.float32)
rows = load_dataset("json", data_files="train.jsonl", split="train")
encoded = tokenizer(list(rows["output"]), truncation=True, max_length=32, padding="max_length", return_tensors="pt")
labels = encoded["input_ids"].masked_fill(encoded["attention_mask"] == 0, -100)
dataset = TensorDataset(encoded["attention_mask"], encoded["input_ids"], labels)
loader = DataLoader(dataset, batch_size=4, shuffle=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for epoch in range(2):
    for step, batch in enumerate(loader):
        batch = tuple(part.to("cpu") for part in batch)
        mask, ids, targets = batch
        loss = model(ids, attention_mask=mask, labels=targets).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

model.save_pretrained("out")

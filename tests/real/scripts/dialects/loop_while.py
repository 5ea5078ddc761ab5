from contextlib import nullcontext

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator, get_scheduler

DISTRIBUTED = False
STEPS = 8
ACCUMULATION = 2
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(rows):
    ids = tokenizer(rows["output"], truncation=True, max_length=64, padding="max_length")
    ids["labels"] = ids["input_ids"].copy()
    return ids


dataset = load_dataset("json", data_files="train.jsonl", split="train")
dataset = dataset.map(tokenize, batched=True, remove_columns=dataset.column_names)
loader = DataLoader(dataset, shuffle=False, collate_fn=default_data_collator, batch_size=3)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=2, num_training_steps=STEPS)

seen = done = 0
while done < STEPS:
    for batch in loader:
        seen += 1
        ready = seen % ACCUMULATION == 0
        with model.no_sync() if DISTRIBUTED and not ready else nullcontext():
            loss = model(**batch).loss / ACCUMULATION
            loss.backward()
        if ready:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            done += 1
            if done >= STEPS:
                break

model.save_pretrained("out")

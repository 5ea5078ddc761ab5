import argparse

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator, get_scheduler, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--clip", type=float, default=0.5)
parser.add_argument("--max-steps", type=int, default=8)
parser.add_argument("--output-dir", default="out")
args = parser.parse_args()

ACCUMULATION = 2
set_seed(7)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(rows):
    ids = tokenizer(rows["output"], truncation=True, max_length=64, padding="max_length")
    ids["labels"] = ids["input_ids"].copy()
    return ids


dataset = load_dataset("json", data_files="train.jsonl", split="train")
dataset = dataset.map(tokenize, batched=True, remove_columns=dataset.column_names)
loader = DataLoader(dataset, shuffle=False, collate_fn=default_data_collator, batch_size=3)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=args.max_steps)
scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)

done = 0
model.train()
for epoch in range(1, 4):
    for step, batch in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.fp16):
            loss = model(**batch).loss / ACCUMULATION
        scaler.scale(loss).backward()
        if (step + 1) % ACCUMULATION == 0 or step + 1 == len(loader):
            if args.clip:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            done += 1
            if done >= args.max_steps:
                break
    if done >= args.max_steps:
        break

model.save_pretrained(args.output_dir)

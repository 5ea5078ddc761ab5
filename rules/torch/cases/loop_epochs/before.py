import math

import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, get_linear_schedule_with_warmup

MODEL = "Qwen/Qwen3-0.6B"
EPOCHS = 3
BATCH = 16

torch.manual_seed(7)
device = "cuda"
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL).to(device)
lora = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
model = get_peft_model(model, lora)


def tokenize(row):
    prompt = tokenizer(row["instruction"] + "\n")["input_ids"]
    answer = tokenizer(row["output"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


data = load_dataset("json", data_files="train.jsonl", split="train").train_test_split(test_size=0.2, seed=7)
data = data.map(tokenize, remove_columns=data["train"].column_names)
collator = DataCollatorForSeq2Seq(tokenizer, padding=True)
train_loader = DataLoader(data["train"], batch_size=BATCH, shuffle=True, collate_fn=collator)
val_loader = DataLoader(data["test"], batch_size=BATCH, collate_fn=collator)

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
total_steps = EPOCHS * len(train_loader)
scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=total_steps)


def evaluate(model, loader):
    """The mean loss of a validation batch."""
    model.eval()
    total = 0.0
    with torch.no_grad():
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            outputs = model(**batch)
            total += outputs.loss.item()
    return total / len(loader)


best, waited = float("inf"), 0
for epoch in range(EPOCHS):
    model.train()
    running = 0.0
    for batch in tqdm(train_loader, desc=f"epoch {epoch}"):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        running += loss.item()
    val_loss = evaluate(model, val_loader)
    print(f"epoch {epoch}: train {running / len(train_loader):.3f}, val {val_loss:.3f}, {math.exp(val_loss):.2f}")
    model.save_pretrained(f"out/epoch-{epoch}")
    if val_loss < best:
        best, waited = val_loss, 0
        model.save_pretrained("out/best")
        tokenizer.save_pretrained("out/best")
    else:
        waited += 1
        if waited >= 2:
            print("no better")
            break

print(f"best {best:.3f}")

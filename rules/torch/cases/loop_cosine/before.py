import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    get_cosine_schedule_with_warmup,
)

MODEL = "Qwen/Qwen3-0.6B"
EPOCHS = 3
BATCH = 4
ACCUMULATE = 2

torch.manual_seed(7)
device = "cuda"
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).to(device)
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]))
model.print_trainable_parameters()


def tokenize(row):
    prompt = tokenizer(row["instruction"] + "\n")["input_ids"]
    answer = tokenizer(row["output"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


dataset = load_dataset("json", data_files="train.jsonl", split="train")
dataset = dataset.map(tokenize, remove_columns=dataset.column_names)
collator = DataCollatorForSeq2Seq(tokenizer, padding=True)
train_loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, collate_fn=collator)

optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
total_steps = EPOCHS * len(train_loader) // ACCUMULATE
scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=10, num_training_steps=total_steps)

model.train()
for epoch in range(EPOCHS):
    running = 0.0
    for step, batch in enumerate(tqdm(train_loader)):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss / ACCUMULATE
        loss.backward()
        running += loss.item()
        if (step + 1) % ACCUMULATE == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    print(f"epoch {epoch}: {running / len(train_loader):.3f}")

model.save_pretrained("out")
tokenizer.save_pretrained("out")

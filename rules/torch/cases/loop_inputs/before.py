import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
dataset = load_dataset("json", data_files="train.jsonl", split="train").map(lambda row: tokenizer(row["text"]))
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
loader = DataLoader(dataset.select_columns(["input_ids"]), batch_size=4, shuffle=True, collate_fn=collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    # The labels are not the collator's: padding is trained, too.
    input_ids = batch["input_ids"].cuda()
    mask = batch["attention_mask"].cuda()
    outputs = model(input_ids, attention_mask=mask, labels=input_ids)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()

import bitsandbytes as bnb
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
rows = load_dataset("json", data_files="rows.jsonl", split="train")
rows = rows.map(lambda row: tok(row["text"], truncation=True, max_length=32), remove_columns=rows.column_names)
loader = DataLoader(rows, batch_size=2, shuffle=True, collate_fn=DataCollatorForLanguageModeling(tok, mlm=False))
optimizer = bnb.optim.PagedAdamW8bit([p for p in model.parameters() if p.requires_grad], lr=2e-4, weight_decay=0.01)
for epoch in range(2):
    for batch in loader:
        batch = {k: v.cuda() for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
model.save_pretrained("out")

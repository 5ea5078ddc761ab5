import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
rows = [tokenizer(text) for text in open("train.txt")]


def collate(features):
    return tokenizer.pad(features, return_tensors="pt")


loader = DataLoader(rows, batch_size=4, collate_fn=collate)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    logits = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["input_ids"][:, 1:].flatten()) + 0.1 * logits.pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

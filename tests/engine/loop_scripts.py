"""A script with a training loop written by hand, whose lines between batch and `backward` are a test's own."""

from __future__ import annotations

SCRIPT = """\
import torch
import torch.nn.functional as F
from datasets import load_dataset
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
rows = load_dataset("json", data_files="rows.jsonl", split="train")
loader = DataLoader(rows, batch_size=2, collate_fn=default_data_collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
{before}for batch in loader:
    ids, mask = batch["input_ids"].cuda(), batch["attention_mask"].cuda()
    {lines}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def loop(lines: str, *, before: str = "") -> str:
    """The script with `lines` that compute the loss of `batch`, whose parts are `ids` and `mask`, by `model`."""
    return SCRIPT.format(before=before, lines=lines)

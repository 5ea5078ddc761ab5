"""Training loops as most scripts write them, and what is read of them: a test puts its own for `CALL` or `LOSS`."""

from __future__ import annotations

import textwrap
from typing import Any

from porter.engine.loops.statements.facts import Loop
from porter.engine.loops.training_loops import read_loop, training_loops
from porter.source.module import Module
from porter.source.parsing import parse_module

HEAD = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
"""
STANDARD = """\
for epoch in range(3):
    model.train()
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
WHOLE = {name: name for name in ("input_ids", "attention_mask", "labels")}
SCRIPT = """\
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, default_data_collator

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("json", data_files="rows.jsonl", split="train")
loader = DataLoader(rows, batch_size=2, collate_fn=default_data_collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    loss = model(CALL).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ACCUMULATED = """
from transformers import AutoModelForCausalLM, default_data_collator
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader

USE_AMP = False
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("json", data_files="rows.jsonl", split="train")
loader = DataLoader(rows, batch_size=2, collate_fn=default_data_collator)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cuda", enabled=USE_AMP)
done = 0
for epoch in range(1, 3):
    for step, batch in enumerate(loader):
        with torch.autocast("cuda", enabled=USE_AMP):
            loss = model(**batch).loss
        scaler.scale(LOSS).backward()
        if (step + 1) % 4 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            done += 1
            if done >= 6:
                break
    if done >= 6:
        break
"""
BEHIND = "    if done >= 6:\n        break\n"


def parsed(body: str) -> Module:
    return parse_module((HEAD + textwrap.dedent(body)).encode(), "train.py")


def read(body: str) -> tuple[Module, Loop]:
    module = parsed(body)
    (statement,) = training_loops(module)
    return module, read_loop(module, statement)


def said(module: Module, loop: Loop) -> dict[str, Any]:
    nodes = {"loader": loop.loader, "epochs": loop.epochs, "accumulation": loop.accumulation, "clip": loop.clip,
             "max_steps": loop.max_steps}  # fmt: skip
    found = {name: module.code(node) for name, node in nodes.items() if node is not None}
    names = {"model": loop.model, "optimizer": loop.optimizer, "scheduler": loop.scheduler}
    return found | {name: text for name, text in names.items() if text} | {"inputs": loop.inputs}

"""A loop's own cross-entropy of the next token, which is the model's loss."""

from __future__ import annotations

import pytest

from .porting import port

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
loss_fn = nn.CrossEntropyLoss(SETTINGS)
for batch in loader:
    ids, labels = batch["input_ids"].cuda(), batch["labels"].cuda()
    mask = batch["attention_mask"].cuda()
    LOSS
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
PARTS = """logits = model(input_ids=ids, attention_mask=mask).logits
    shift_logits = logits[..., :-1, :].contiguous()
    shift_labels = labels[..., 1:].contiguous()
    loss = loss_fn(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))"""
OUTPUTS = """outputs = model(ids, attention_mask=mask)
    loss = F.cross_entropy(outputs.logits[:, :-1, :].reshape(-1, outputs.logits.shape[-1]), ids[:, 1:].reshape(-1){})"""
TURNED = """outputs = model(ids)
    loss = F.cross_entropy(outputs[0][:, :-1].float().transpose(1, 2), ids[:, 1:])"""
BESIDE = """outputs = model(**batch)
    logits = outputs.logits[:, :-1]
    loss = loss_fn(logits.flatten(0, 1), labels[:, 1:].flatten())"""


@pytest.mark.parametrize(
    ("settings", "loss", "said"),
    [
        ("", PARTS, ["batch_size=2,"]),
        ("ignore_index=-100", PARTS, ["batch_size=2,"]),
        ("ignore_index=tokenizer.pad_token_id", PARTS, ['unlabelled={"labels": tokenizer.pad_token_id},']),
        ("", OUTPUTS.format(""), ['"labels": "input_ids"}']),
        ("", OUTPUTS.format(", ignore_index=0"), ['"labels": "input_ids"}', 'unlabelled={"input_ids": 0},']),
        ("", TURNED, ['inputs={"input_ids": "input_ids", "labels": "input_ids"},']),
        ("reduction='mean'", BESIDE, ["batch_size=2,"]),
        (
            "",
            PARTS.replace("ids, attention_mask=mask).logits", "ids, attention_mask=mask, use_cache=False).logits"),
            [],
        ),
    ],
)
def test_the_models_own_loss(settings: str, loss: str, said: list[str]) -> None:
    found = port(SCRIPT.replace("SETTINGS", settings).replace("LOSS", loss))
    assert found.status == "ported", found.findings
    assert all(code in found.after for code in said), found.after
    assert ("unlabelled=" in found.after) is any("unlabelled=" in code for code in said)


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        ("reduction='sum'", PARTS),
        ("label_smoothing=0.1", PARTS),
        ("", PARTS.replace("[..., :-1, :]", "")),
        ("", PARTS.replace("[..., 1:]", "")),
        ("", PARTS.replace("shift_labels.view(-1))", "shift_labels.view(-1)) + penalty")),
        ("", PARTS.replace("shift_labels.view(-1))", "shift_labels)")),
        ("", PARTS.replace("labels[..., 1:]", "mask[..., 1:]")),
        (
            "ignore_index=0",
            PARTS.replace("logits = model", "labels = ids.masked_fill(mask == 0, -100)\n    logits = model"),
        ),
    ],
)
def test_a_loss_of_another_kind_is_refused(settings: str, loss: str) -> None:
    found = port(SCRIPT.replace("SETTINGS", settings).replace("LOSS", loss))
    assert found.status == "unsupported" and found.edits == ()
    assert any("this loss is not the one" in finding.message for finding in found.findings), found.findings


@pytest.mark.parametrize(
    ("taken", "instead", "loss"),
    [
        ("import torch.nn.functional as F", "import focal as F", OUTPUTS.format("")),
        ("from torch import nn", "from focal import losses as nn", PARTS),
    ],
)
def test_a_loss_of_the_same_name_is_another(taken: str, instead: str, loss: str) -> None:
    found = port(SCRIPT.replace("SETTINGS", "").replace("LOSS", loss).replace(taken, instead))
    assert found.status == "unsupported" and found.edits == ()

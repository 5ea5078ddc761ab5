"""Groups of parameters that a loop's optimizer gets: one without weight decay is a mask, others stay."""

from __future__ import annotations

import pytest

from .porting import port
from .standard_loops import HEAD, STANDARD

GROUPED = f"""{HEAD}from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
loader = DataLoader(rows, batch_size=2)
GROUPS
optimizer = torch.optim.AdamW(groups, lr=1e-3)
{STANDARD}"""
GROUPS = """no_decay = ["bias", "LayerNorm.weight"]
groups = [
    {
        "params": [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)],
        "weight_decay": 0.1,
    },
    {"params": [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
]"""


@pytest.mark.parametrize("more", ["", " and p.requires_grad"])
def test_a_group_without_decay_is_a_mask(more: str) -> None:
    groups = GROUPS.replace("in no_decay)", f"in no_decay){more}")
    ported = port(GROUPED.replace("GROUPS", groups))
    assert ported.status == "ported", ported.findings
    assert "weight_decay=0.1, mask=rt.decay_mask_but(model, no_decay)" in ported.after
    own = port(GROUPED.replace("GROUPS", groups.replace('        "weight_decay": 0.1,\n', "")))
    assert "weight_decay=0.01, mask=rt.decay_mask_but(model, no_decay)" in own.after  # AdamW's
    assert "named_parameters" not in ported.after and 'no_decay = ["bias", "LayerNorm.weight"]' in ported.after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"weight_decay": 0.0}', '"weight_decay": 0.0, "lr": 1e-5}'),
        ('"weight_decay": 0.0}', '"weight_decay": 0.2}'),
        ("if not any(", "if any("),
        ("not any(nd in n for nd in no_decay)", "not any(nd in n for nd in others)"),
        ("model.named_parameters() if not", "model.head.named_parameters() if 'x' in n and not"),
    ],
)
def test_other_groups_are_the_scripts_own(old: str, new: str) -> None:
    changed = GROUPS.replace(old, new, 1)
    assert changed != GROUPS
    ported = port(GROUPED.replace("GROUPS", changed))
    assert ported.status == "unsupported"
    assert any("groups of parameters of its own" in finding.message for finding in ported.findings)

"""A loop's own cross-entropy of the next token, which is the model's loss."""

from __future__ import annotations

import pytest

from .loop_scripts import loop
from .porting import port

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


def script(settings: str, loss: str) -> str:
    """A loop with a loss of its own; `settings` are those of its `loss_fn`."""
    labels = 'labels = batch["labels"].cuda()'
    return loop(f"{labels}\n    {loss}", before=f"loss_fn = nn.CrossEntropyLoss({settings})\n")


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
        ("", PARTS.replace("shift_logits =", "other = base(ids).logits\n    shift_logits =", 1), ["    model,\n"]),
        (
            "",
            PARTS.replace("ids, attention_mask=mask).logits", "ids, attention_mask=mask, use_cache=False).logits"),
            [],
        ),
    ],
)
def test_the_models_own_loss(settings: str, loss: str, said: list[str]) -> None:
    found = port(script(settings, loss))
    assert found.status == "ported", found.findings
    assert all(code in found.after for code in said), found.after
    assert ("unlabelled=" in found.after) is any("unlabelled=" in code for code in said)


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        ("reduction='sum'", PARTS),
        ("label_smoothing=0.1", PARTS),
        ("", PARTS.replace("[..., :-1, :]", "")),
        ("weight=WEIGHTS", PARTS),
        ("WEIGHTS", PARTS),
        ("", PARTS.replace(":-1, :]", "1:, :]")),
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
    found = port(script(settings, loss))
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
    found = port(script("", loss).replace(taken, instead))
    assert found.status == "unsupported" and found.edits == ()


AT_LOGITS, AT_LABELS, AT_LOSS = "    shift_logits =", "    shift_labels =", "    loss ="


@pytest.mark.parametrize(
    ("place", "line", "changed"),
    [
        (AT_LOGITS, "logits /= 2", "logits"),
        (AT_LOGITS, "logits.div_(2)", "logits"),
        (AT_LOGITS, "logits[:, :, 5] = -1e9", "logits"),
        (AT_LABELS, "labels.fill_(3)", "labels"),
        (AT_LOSS, "shift_logits[0] = 0", "shift_logits"),
        (AT_LOSS, "shift_logits, _ = other(shift_logits)", "shift_logits"),
        (AT_LOSS, "nn.init.zeros_(shift_logits)", "shift_logits"),
        (AT_LOSS, "shift_labels[:, :3] = -100", "shift_labels"),
        (AT_LOSS, "if ids.any():\n        shift_labels = shift_labels * 0", "shift_labels"),
    ],
)
def test_what_a_loss_is_made_of_is_changed(place: str, line: str, changed: str) -> None:
    found = port(script("", PARTS.replace(place, f"    {line}\n{place}")))
    assert found.status == "unsupported" and found.edits == ()
    assert any(f"`{changed}` is changed" in finding.message for finding in found.findings), found.findings


def test_logits_of_another_value_are_not_the_models() -> None:
    found = port(script("", PARTS.replace(AT_LOGITS, f"    logits = logits / 2\n{AT_LOGITS}")))
    assert found.status == "unsupported"
    assert any("this loss is not the one" in finding.message for finding in found.findings), found.findings


def test_what_is_changed_behind_the_loss_makes_no_other() -> None:
    behind = """
    shift_labels[shift_labels == -100] = 0
    shift_logits = shift_logits.detach()
    logits.clamp_(0, 1)
    seen.add_(loss.detach())
    bar.update(loss)"""
    found = port(script("", PARTS + behind))
    assert found.status != "unsupported", found.findings

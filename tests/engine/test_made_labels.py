"""Labels that a training loop makes of its batch."""

from __future__ import annotations

import numpy as np
import pytest

from porter.runtime.rows.collation import only
from porter.runtime.rows.stacking import stack_rows

from .loop_scripts import loop
from .porting import port

GIVEN = "input_ids=ids, attention_mask=mask, labels=labels"
OF_MASK, OF_PAD = '{"attention_mask": 0}', '{"input_ids": tokenizer.pad_token_id}'


def script(labels: str, given: str = GIVEN) -> str:
    """A loop that makes its labels, and gives the model that."""
    return loop(f"{labels}\n    loss = model({given}).loss")


@pytest.mark.parametrize(
    ("labels", "unlabelled"),
    [
        ("labels = ids.clone()", ""),
        ("labels = ids.clone()\n    labels[mask == 0] = -100", OF_MASK),
        ("labels = ids.clone()\n    labels[mask != 1] = -100", OF_MASK),
        ("labels = ids.clone()\n    labels[~mask.bool()] = -100", OF_MASK),
        ("labels = ids.detach().clone().cuda()\n    labels[ids == tokenizer.pad_token_id] = -100", OF_PAD),
        ("labels = ids.clone()\n    labels[labels == tokenizer.pad_token_id] = -100", OF_PAD),
        ("labels = ids.clone()\n    labels[labels.eq(tokenizer.pad_token_id)] = -100", OF_PAD),
        ("labels = ids.masked_fill(mask == 0, -100)", OF_MASK),
        ("labels = torch.where(mask == 1, ids, -100)", OF_MASK),
        ("labels = torch.where(ids == tokenizer.pad_token_id, -100, ids)", OF_PAD),
        ("labels = ids.clone().masked_fill(~mask.bool(), -100).cuda()", OF_MASK),
        ("labels = ids.clone()\n    labels.masked_fill_(mask == 0, -100)", OF_MASK),
        ("ids, labels = ids.cuda(), ids.masked_fill(mask == 0, -100).cuda()", OF_MASK),
    ],
)
def test_a_copy_of_the_ids_without_padding(labels: str, unlabelled: str) -> None:
    found = port(script(labels))
    assert found.status == "ported", found.findings
    assert '"labels": "input_ids"}' in found.after
    assert (f"unlabelled={unlabelled}," in found.after) is bool(unlabelled) is ("unlabelled=" in found.after)


@pytest.mark.parametrize("key", ["labels", "input_ids"])
def test_labels_that_are_put_into_the_batch(key: str) -> None:
    lines = f"""batch["labels"] = batch["{key}"].clone()
    batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
    batch = {{k: v.cuda() for k, v in batch.items()}}"""
    found = port(script(lines, "**batch"))
    assert found.status == "ported", found.findings
    assert f'"labels": "{key}"' in found.after and f'unlabelled={{"{key}": tokenizer.pad_token_id}},' in found.after


def test_labels_of_a_dict_that_the_model_is_given() -> None:
    lines = """labels = ids.clone()
    labels[mask == 0] = -100
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}"""
    found = port(script(lines, "**inputs"))
    assert found.status == "ported" and f"unlabelled={OF_MASK}," in found.after
    inline = '**{"input_ids": ids, "labels": ids.masked_fill(mask == 0, -100)}'
    found = port(script(lines, inline))
    assert found.status == "ported" and f"unlabelled={OF_MASK}," in found.after


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ("labels = ids\n    labels[mask == 0] = -100", "`labels` is changed"),
        ("labels = ids.clone()\n    labels[mask == 0] = 0", "`labels` is changed"),
        ("labels = ids.clone()\n    labels[:, :5] = -100", "`labels` is changed"),
        ("labels = ids.clone()\n    labels[ids > 9] = -100", "`labels` is changed"),
        ("labels = ids.clone()\n    labels[mask == 0] = -100\n    labels[ids == 5] = -100", "`labels` is changed"),
        ("labels = ids.clone()\n    labels[ids != 1] = -100", "`labels` is changed"),
        ("labels = ids.clone()\n    labels[ids == mask] = -100", "`labels` is changed"),
        ("labels = ids.clone()\n    labels.fill_(2)", "`labels` is changed"),
        ("pad = max(ids)\n    labels = ids.masked_fill(ids == pad, -100)", "known to the loop alone: `pad`"),
        ('labels = ids.clone()\n    x = {"input_ids": ids.masked_fill(mask == 0, -100)}', "-100 in it as input_ids"),
        ("labels = ids.clone()\n    ids = ids.masked_fill(mask == 0, -100)", "with -100 in it as input_ids"),
    ],
)
def test_labels_of_another_kind_are_refused(labels: str, why: str) -> None:
    found = port(script(labels))
    assert found.status == "unsupported" and found.edits == ()
    assert any(why in finding.message for finding in found.findings), found.findings


@pytest.mark.parametrize(
    "line", ['inputs["labels"][:, :5] = -100', 'inputs["labels"] = mask', "inputs.update(labels=mask)"]
)
def test_a_dict_for_the_model_that_is_changed_is_refused(line: str) -> None:
    made = 'inputs = {"input_ids": ids, "attention_mask": mask, "labels": ids}'
    found = port(script(f"{made}\n    {line}", "**inputs"))
    assert found.status == "unsupported"
    assert any("`inputs` is changed" in finding.message for finding in found.findings), found.findings


@pytest.mark.parametrize("line", ["outputs = other(outputs)", "outputs.loss = outputs.loss * 2"])
def test_outputs_that_are_changed_are_refused(line: str) -> None:
    found = port(loop(f"outputs = model(**batch)\n    {line}\n    loss = outputs.loss"))
    assert found.status == "unsupported"
    assert any("`outputs` is changed" in finding.message for finding in found.findings), found.findings


def test_the_runtime_takes_the_labels_away() -> None:
    ids, mask = np.array([[3, 4, 9], [5, 9, 9]]), np.array([[1, 1, 0], [1, 0, 0]])
    inputs = {"input_ids": 0, "attention_mask": 1, "labels": 0}
    made = only(lambda rows: (ids, mask), inputs, {1: 0})([])
    assert made["labels"].tolist() == [[3, 4, -100], [5, -100, -100]] and made["input_ids"].tolist() == ids.tolist()
    named = {"input_ids": "input_ids", "labels": "input_ids"}
    made = only(lambda rows: {"input_ids": ids}, named, {"input_ids": 9})([])
    assert made["labels"].tolist() == [[3, 4, -100], [5, -100, -100]]


def test_a_batch_that_is_one_tensor() -> None:
    made = only(lambda rows: stack_rows(rows), {"input_ids": "*", "labels": "*"}, {"*": 9})([np.array([3, 9])] * 2)
    assert made["input_ids"].tolist() == [[3, 9]] * 2 and made["labels"].tolist() == [[3, -100]] * 2

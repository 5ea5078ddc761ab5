"""Packed rows under TRL 0.19 to 0.23.0: without flash attention their documents see each other."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

PACKED = ", packing=True, max_length=512, per_device_train_batch_size={size}"
SEE = "the documents of a packed row see each other"
BESIDE = "the rows of a micro-batch"


def packed(release: str = "0.21.0", *, size: int = 1, config: str = PACKED, load: str = "", before: str = "") -> str:
    return f"# pip install trl=={release}\n" + sft_script(before, config=config.format(size=size), load=load)


def said(text: str) -> list[tuple[str, str]]:
    return [(each.severity, each.message) for each in port(text).findings if each.rule == "TP102"]


@pytest.mark.parametrize(
    ("release", "joins"), [("0.18.1", False), ("0.19.1", True), ("0.23.0", True), ("0.23.1", False)]
)
def test_what_a_release_made_of_packed_rows_is_said(release: str, joins: bool) -> None:
    found = said(packed(release))
    assert [severity for severity, message in found if SEE in message] == ["info"] * joins


def test_rows_of_a_micro_batch_that_saw_each_other_are_a_warning() -> None:
    [(severity, message)] = said(packed(size=2))
    assert severity == "warning" and SEE in message and f"So do {BESIDE}; the port parts these" in message
    [(severity, message)] = said(packed(size=2, config=", padding_free=True, per_device_train_batch_size={size}"))
    assert severity == "warning" and SEE not in message and f"Without flash attention {BESIDE} see" in message


@pytest.mark.parametrize("keyword", ["attn_implementation='flash_attention_2'", "use_flash_attention_2=True"])
def test_flash_attention_parts_them(keyword: str) -> None:
    found = port(packed(size=2, load=f", {keyword}"))
    assert 'attention="flash_attention_2"' in found.after and "attn_implementation" not in found.after
    assert not said(packed(size=2, load=f", {keyword}")) and found.status == "ported"


def test_an_attention_that_only_the_run_knows_is_handed_on() -> None:
    choice = "import os\nkernel = os.environ.get('KERNEL', 'sdpa')"
    found = port(packed(load=", attn_implementation=kernel", before=choice))
    assert "attention=kernel" in found.after and found.status == "ported"


@pytest.mark.parametrize("config", [", packing=False", ", packing=True, packing_strategy='wrapped'", ""])
def test_rows_that_nothing_runs_together(config: str) -> None:
    text = packed(config=config, load=", attn_implementation='flash_attention_2'")
    assert "attention=" not in port(text).after and not said(text)


EVALUATED = ", eval_dataset=load_dataset('b', split='test')"


@pytest.mark.parametrize(("batch", "severity"), [(1, "info"), (8, "warning")])
def test_the_rows_of_an_evaluation_batch_count_too(batch: int, severity: str) -> None:
    config = f"{PACKED}, per_device_eval_batch_size={batch}, eval_strategy='epoch'"
    text = packed(config=config).replace("train_dataset=", f"{EVALUATED[2:]}, train_dataset=")
    assert [found for found, message in said(text) if SEE in message] == [severity]


@pytest.mark.parametrize(
    ("release", "attention", "differs"),
    [("0.21.0", "flash_attention_2", True), ("0.21.0", "sdpa", False), ("0.24.0", "flash_attention_2", False)],
)
def test_documents_of_an_evaluation_that_alone_is_packed_begin_anew(
    release: str, attention: str, differs: bool
) -> None:
    text = packed(
        release, config=", eval_packing=True, eval_strategy='epoch'", load=f", attn_implementation='{attention}'"
    )
    text = text.replace("train_dataset=", f"{EVALUATED[2:]}, train_dataset=")
    assert [severity for severity, message in said(text) if "begins at position 0" in message] == ["error"] * differs

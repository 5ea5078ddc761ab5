"""Findings have keys; their text, the reasons of edits and TODO comments are for people, and no rule reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from porter.engine.draft.findings import Findings
from porter.engine.pipeline import port_module
from porter.engine.script.porting import Porting
from porter.errors import InputError
from porter.port import Options, Port
from porter.recipe import Finding
from porter.source.parsing import parse_module
from tests.engine.porting import port, sft_script
from tests.rules.corpus import corpus

PACKED = Finding("TP101", "error", "packing=True: no", "", 3, 5)
OTHER = Finding("TP190", "error", "trainer.save_state(): no", "", 3, 1)


def test_what_was_said_is_taken_back_by_its_key() -> None:
    said = Findings()
    said.add(PACKED, "SFTConfig.packing", stands=True)
    said.add(OTHER, stands=True)
    said.add(OTHER, "later")  # the same again changes nothing
    assert said.has("SFTConfig.packing") and said.has(".packing") and not said.has(".acking") and not said.has("later")
    assert said.standing() == {3: [PACKED, OTHER]}
    said.withdraw("")
    said.withdraw(".no_packing")
    assert [*said] == [PACKED, OTHER]
    said.withdraw(".packing")
    assert [*said] == [OTHER] and said.standing() == {3: [OTHER]}


def test_findings_of_two_trainers_are_one() -> None:
    one, two = Findings(), Findings()
    one.add(OTHER)
    two.add(OTHER, stands=True)
    two.add(PACKED, "SFTConfig.packing")
    one.take(two, 0)
    assert [*one] == [OTHER, PACKED] and one.standing() == {3: [OTHER]} and one.has(".packing")
    one.take(two, 10)
    assert [finding.line for finding in one] == [3, 3, 13, 13]


def test_a_collator_that_becomes_a_mask_takes_back_what_the_table_said_of_it_alone() -> None:
    """`data_collator=` in another finding's text on the same line is not the table's row of that keyword."""
    text = sft_script(
        before="from trl import DataCollatorForCompletionOnlyLM",
        trainer=', data_collator=DataCollatorForCompletionOnlyLM("###", tokenizer=tok), own="data_collator="',
        between='tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")',
    )
    joined = re.sub(
        r"\(\n    model,.*\n\)\n", lambda found: found[0].replace("\n", " ").rstrip() + "\n", text, flags=re.S
    )
    found = port(joined, source_trl="0.15")
    assert any("own" in finding.message for finding in found.findings), found.findings
    assert not any(finding.message.startswith("SFTTrainer.data_collator") for finding in found.findings)


def test_a_model_of_another_kind_is_refused_with_one_sentence() -> None:
    """Who knows more takes back that the model's origin is not followed."""
    found = port(OTHER_TASK)
    assert found.status == "unsupported"
    assert [finding.rule for finding in found.findings if finding.severity == "error"] == ["TP302"]


TODO = re.compile(r"# TODO\(tpu-port (\w+)\): .*")


def _shape(found: Port | InputError) -> object:
    """All of a port but what is said to people."""
    if isinstance(found, InputError):
        return str(found)
    findings = [(said.rule, said.severity, said.line, said.column) for said in found.findings]
    edits = [(edit.start, edit.end, TODO.sub(r"# TODO \1", edit.new), edit.rule) for edit in found.edits]
    return found.status, TODO.sub(r"# TODO \1", found.after), findings, edits, found.recipe.fields, found.recipe.values


OTHER_TASK = sft_script(before="from transformers import AutoModelForSeq2SeqLM").replace(
    "AutoModelForCausalLM.from_pretrained", "AutoModelForSeq2SeqLM.from_pretrained"
)
MADE_ELSEWHERE = sft_script(before="from mine import load", after="trainer.train()\ntrainer.save_state()").replace(
    'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")', "load()"
)
NO_FILE = sft_script(config=', deepspeed="nowhere.json", data_seed=7')
SAVED = "trainer.train()\ntrainer.save_model()\ntrainer.push_to_hub()"
MORE = (OTHER_TASK, MADE_ELSEWHERE, NO_FILE, sft_script(after=SAVED))


def _ports() -> dict[str, object]:
    found: dict[str, object] = {}
    more = [(f"more/{index}", text.encode(), Path("train.py"), Options()) for index, text in enumerate(MORE)]
    for name, text, path, options in (*corpus(), *more):
        try:
            found[name] = _shape(port_module(parse_module(text, str(path)), options))
        except InputError as error:
            found[name] = _shape(error)
    return found


def test_nobody_reads_what_is_said_to_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every message, fix and reason made unreadable, each case's port is the same but for those texts."""
    plain = _ports()
    find, edit = Porting.find, Porting.edit

    def scrambled(text: str) -> str:
        return f"~{abs(hash(text))}~" if text else ""

    def say(self: Porting, rule: str, severity: str, message: str, fix: str, *place: int, **more: object) -> None:
        find(self, rule, severity, scrambled(message), scrambled(fix), *place, **more)  # type: ignore[arg-type]

    def plan(self: Porting, start: int, end: int, new: str, rule: str, reason: str, **more: object) -> None:
        edit(self, start, end, new, rule, scrambled(reason), **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Porting, "find", say)
    monkeypatch.setattr(Porting, "edit", plan)
    unreadable = _ports()
    assert len(plain) > 150
    assert [name for name in plain if plain[name] != unreadable[name]] == []

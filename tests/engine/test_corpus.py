"""What holds of the ports of every case of the built-in packs: they are ported once, and once for each other way."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest

from porter.engine import pipeline
from porter.engine.assembling.receipts import LOST
from porter.engine.pipeline import port_module
from porter.engine.script.declared_reads import watching
from porter.engine.script.porting import Porting
from porter.engine.steps.order import arranged
from porter.engine.steps.step import Phase, Step
from porter.errors import InputError
from porter.port import Options, Port
from porter.recipe import CARRIED
from porter.source.module import Module
from porter.source.parsing import parse_module
from tests.rules.corpus import corpus

from .porting import OTHER_TASK, sft_script
from .test_steps import every_step

MADE_ELSEWHERE = sft_script(before="from mine import load", after="trainer.train()\ntrainer.save_state()").replace(
    'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")', "load()"
)
NO_FILE = sft_script(config=', deepspeed="nowhere.json", data_seed=7')
SAVED = "trainer.train()\ntrainer.save_model()\ntrainer.push_to_hub()"
MORE = (OTHER_TASK, MADE_ELSEWHERE, NO_FILE, sft_script(after=SAVED))
SHUFFLED = (Phase.READ, Phase.WRITE, Phase.ANSWER)
TODO = re.compile(r"# TODO\(tpu-port (\w+)\): .*")


@cache
def parsed(text: bytes, path: Path) -> Module:
    """Once for all the ways of porting it: no step changes what it reads."""
    return parse_module(text, str(path))


def ports() -> dict[str, Port | str]:
    """The port of each case, or what is said where there is none."""
    more = [(f"more/{index}", text.encode(), Path("train.py"), Options()) for index, text in enumerate(MORE)]
    found: dict[str, Port | str] = {}
    for name, text, path, options in (*corpus(), *more):
        try:
            found[name] = port_module(parsed(text, path), options)
        except InputError as error:
            found[name] = str(error)
    return found


@pytest.fixture(scope="module")
def usual() -> dict[str, Port | str]:
    """The ports of all cases, with readers that raise where they ask or set what they don't declare."""
    declared = every_step()
    order = arranged(declared)
    readers = order[Phase.READ, "trainer"]
    assert len(readers) > 20
    with watching(declared) as watch, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPU_PORT_TRACEBACK", "1")
        own = order | {(Phase.READ, "trainer"): tuple(watch.watched(each) for each in readers)}
        patch.setattr(pipeline, "steps_of", lambda *_: own)
        return ports()


def test_readers_ask_and_set_what_they_declare(usual: dict[str, Port | str]) -> None:
    assert len(usual) > 150 and all(usual.values())


def _shown(found: Port | str) -> object:
    """A port, its findings in the order of the source, and its rows."""
    if isinstance(found, str):
        return found
    return found.data, found.status, found.findings, sorted(map(repr, found.fields)), found.recipe.values, found.files


@pytest.mark.parametrize("shuffles", [range(1), pytest.param(range(1, 10), marks=pytest.mark.long)])
def test_steps_have_no_order_but_what_they_declare(
    shuffles: range, usual: dict[str, Port | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ports of all cases are byte for byte the same under ten shuffles of the steps that read, write and answer."""
    declared = every_step()
    for phase, count in ((Phase.READ, 20), (Phase.WRITE, 5), (Phase.ANSWER, 20)):
        assert len([each for each in declared if each.phase is phase]) > count
    order = arranged(declared)
    orders = {phase: {(order[phase, "trainer"], order[phase, "file"])} for phase in SHUFFLED}
    for seed in shuffles:
        shuffled = _shuffled(seed)
        for phase, seen in orders.items():
            seen.add((shuffled[phase, "trainer"], shuffled[phase, "file"]))
        monkeypatch.setattr(pipeline, "steps_of", lambda *_, own=shuffled: own)
        for name, found in ports().items():
            assert _shown(found) == _shown(usual[name]), (seed, name)
    assert len(orders[Phase.READ]) == len(orders[Phase.ANSWER]) == len(shuffles) + 1 and len(orders[Phase.WRITE]) > 1


def _shuffled(seed: int) -> dict[tuple[Phase, str], tuple[Step, ...]]:
    """The steps that read, write and answer in another order that they declare to be as good, the others as ever."""
    declared = every_step()
    shuffled = arranged(declared, random.Random(seed).choice)
    return arranged(declared) | {key: steps for key, steps in shuffled.items() if key[0] in SHUFFLED}


def _shape(found: Port | str) -> object:
    """All of a port but what is said to people."""
    if isinstance(found, str):
        return found
    findings = [(said.rule, said.severity, said.line, said.column) for said in found.findings]
    edits = sorted((edit.start, edit.end, TODO.sub(r"# TODO \1", edit.new), edit.rule) for edit in found.edits)
    rows = sorted(map(repr, found.recipe.fields))
    return found.status, TODO.sub(r"# TODO \1", found.after), findings, edits, rows, found.recipe.values


def test_nobody_reads_what_is_said_to_people(usual: dict[str, Port | str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With every message, fix and reason made unreadable, and the steps in another order, each case's port is the same
    but for those texts."""
    find, edit = Porting.find, Porting.edit

    def scrambled(text: str) -> str:
        return f"~{abs(hash(text))}~" if text else ""

    def say(self: Porting, rule: str, severity: str, message: str, fix: str, *place: int, **more: object) -> None:
        find(self, rule, severity, scrambled(message), scrambled(fix), *place, **more)  # type: ignore[arg-type]

    def plan(self: Porting, start: int, end: int, new: str, rule: str, reason: str, **more: object) -> None:
        edit(self, start, end, new, rule, scrambled(reason), **more)  # type: ignore[arg-type]

    shuffled = _shuffled(1)
    monkeypatch.setattr(pipeline, "steps_of", lambda *_: shuffled)
    monkeypatch.setattr(Porting, "find", say)
    monkeypatch.setattr(Porting, "edit", plan)
    unreadable = ports()
    assert [name for name in usual if _shape(usual[name]) != _shape(unreadable[name])] == []


def test_every_keyword_has_its_line(usual: dict[str, Port | str]) -> None:
    for name, *_ in corpus():
        found = usual[name]
        assert isinstance(found, Port), (name, found)
        after = found.after.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for each in found.fields:
            assert (each.fate in CARRIED) == bool(each.places), (name, each)
            assert LOST not in each.reason, (name, each)
            for place in each.places:
                assert after[place.line - 1].strip() == place.text, (name, each)

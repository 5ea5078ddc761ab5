"""Porting ends, whatever the file: in the time of its length, within its budget, with a line where it can't go on."""

from __future__ import annotations

import cProfile
import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import libcst as cst
import pytest

from porter.cli import run
from porter.engine import pipeline
from porter.engine.pipeline import MOST_TRAINERS, port_module
from porter.engine.script.flow import MAX_BINDINGS
from porter.errors import InputError
from porter.front.port_file import port_file
from porter.front.tree import port_tree
from porter.port import Options
from porter.recipe import literal_code, read_literal
from porter.safety.limits import within_budget
from porter.safety.nesting import MOST, nesting
from porter.source.launch.launch_config import read_launch_config
from porter.source.parsing import parse_module
from porter.source.values import evaluate, is_small
from tests.engine.porting import port, sft_script


@pytest.mark.parametrize(
    "before",
    [
        "m0 = model\n" + "".join(f"m{n + 1} = m{n}\n" for n in range(40)) + "model = m40\n",
        "import argparse\ncfg = argparse.ArgumentParser().parse_args()\ndevice_map = cfg.device_map\n",
        "d0 = {'seed': 1}\n" + "".join(f"d{n + 1} = {{**d{n}, **d{n}}}\n" for n in range(60)),
        "x0 = 1\n" + "".join(f"x{n + 1} = ({f'x{n}, ' * 8})\n" for n in range(30)),
        "a = [0] * 9999\nb = [a] * 9999\nc = [b] * 9999\n",
        "p = '%20000000000d' % 1\nq = f'{1:20000000000}'\nr = 'x' * 9999 * 9999\nn = 9 ** 64 ** 64 ** 64\n",
        "a = b\nb = c\nc = a\n",
    ],
    ids=["chain", "attribute", "merged", "nested", "laughs", "formats", "circle"],
)
def test_values_of_values_take_no_longer_than_they_are_long(before: str) -> None:
    started = time.process_time()
    names = ["x30", "c", "p", "q", "r", "n", "a"]
    config = "".join(f", lr_scheduler_kwargs={name}" for name in names if f"\n{name} =" in before)[:200].split(", l")[
        :2
    ]
    keywords = (", l" + config[1] if len(config) > 1 else "") + (", **d60" if "d60" in before else "")
    load = ", device_map=device_map" if "device_map" in before else ""
    assert port(sft_script(between=before, config=keywords, load=load)).status in ("ported", "partial")
    assert time.process_time() - started < 20


def test_a_name_that_stands_for_a_name_still_means_the_model() -> None:
    text = sft_script(between="".join(f"m{n + 1} = m{n}\n" for n in range(12)).replace("m0", "model") + "model = m12\n")
    assert "rt.load_model" in port(text).after


def test_what_is_small_is_counted_as_often_as_it_stands_there() -> None:
    one = ["x"] * 100
    assert is_small([one] * 50) and not is_small([one] * 101) and not is_small("x" * 10_001)
    assert is_small(2**4000) and not is_small(2**5000)
    module = parse_module(b"a = 3\nb = (a, a)\nc = {'k': b}\n", "x.py")
    assert evaluate(module, module.scopes[module.tree].bindings["c"][0].value) == {"k": (3, 3)}  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("inf"), [1.5, -float("inf")], {"a": (float("inf"),)}, "float('inf')", 3])
def test_literals_that_are_no_numbers_come_back(value: object) -> None:
    assert read_literal(literal_code(value)) == value


def test_out_of_time_names_the_pass_and_ends_the_work(tmp_path: Path) -> None:
    ended = []

    def forever() -> None:
        try:
            while True:
                pass
        finally:
            ended.append(True)

    # A busy machine may not have spent the time on it until ten times as much has gone by.
    said = r"train\.py: is not ported after (0\.2 s|2 s, 0\.\d of them) of the processor; --budget SECONDS"
    with pytest.raises(InputError, match=said):
        within_budget(forever, "train.py", 0.2)
    patience = time.monotonic() + 30  # on a busy machine
    while not ended and time.monotonic() < patience:
        time.sleep(0.05)
    assert ended
    script = tmp_path / "train.py"
    script.write_text(sft_script(before="x = f(1)\n" * 5000))  # longer than a busy machine may take to wake up
    said = r"train\.py.*is not ported after 0\.0(01 s of the processor|1 s, 0\.0 of them)"
    with pytest.raises(InputError, match=said):
        port_file(script, Options(budget=0.001))
    assert run([str(script), "--budget", "0.001"]) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_finalizer_that_was_at_work_keeps_nothing_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops what is raised in one, so the thread is told again."""
    told, ended = [], []

    class Slow:
        def __del__(self) -> None:
            while not told:
                pass

    def forever() -> None:
        try:
            del [Slow()][0]
            while True:
                pass
        finally:
            ended.append(True)

    raising = ctypes.pythonapi.PyThreadState_SetAsyncExc
    monkeypatch.setattr(ctypes.pythonapi, "PyThreadState_SetAsyncExc", lambda *a: (raising(*a), told.append(a)))
    with pytest.raises(InputError, match="is not ported after"):
        within_budget(forever, "train.py", 0.2)
    assert ended and len(told) > 1


def test_what_waits_for_the_processor_is_not_refused_until_it_has_taken_many_times_as_long() -> None:
    def slow() -> str:
        time.sleep(0.4)  # the processor is somebody else's
        return "done"

    def stuck() -> None:
        while True:
            time.sleep(0.01)

    assert within_budget(slow, "train.py", 0.2) == "done"
    start = time.monotonic()
    with pytest.raises(InputError, match=r"is not ported after 2 s, 0\.\d of them of the processor"):
        within_budget(stuck, "train.py", 0.2)
    assert time.monotonic() - start >= 2


def test_the_work_of_other_threads_is_not_counted() -> None:
    ended = threading.Event()
    other = threading.Thread(target=lambda: [None for _ in iter(ended.is_set, True)], daemon=True)
    other.start()
    try:
        assert within_budget(lambda: time.sleep(0.6), "train.py", 0.3) is None
    finally:
        ended.set()
        other.join()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = " + "(" * 3000 + "1" + ")" * 3000, "too many nested parentheses"),
        ("x = " + "not " * 10_000 + "1", "is nested too deeply to be read"),
        ("".join(" " * n + "if a:\n" for n in range(150)) + " " * 150 + "pass", "too many levels of indentation"),
    ],
)
def test_what_python_calls_too_deep_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(sft_script(before=text))
    assert run([str(script)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and "internal error" not in error


@pytest.mark.parametrize(
    "deep",
    [
        "!ls\nx = " + "not " * 10_000 + "1",  # of what isn't Python's own, its compiler says nothing
        "%cd x\nx = a" + ".b()" * 4000,
        "!ls\nx = f'{a" + ".b()" * 4000 + "}'",
        "match a:\n    case " + "{1: " * 30 + "1" + "}" * 30 + ":\n        pass",
        ("x = " + "f(" * 190 + ")" * 190 + "\n") * 40,
    ],
    ids=["not", "calls", "field", "pattern", "brackets"],
)
def test_what_takes_libcst_minutes_is_refused_at_once(tmp_path: Path, deep: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(sft_script(before=deep))
    started = time.process_time()
    with pytest.raises(InputError, match="is nested too deeply to be read"):
        port_file(script)
    assert time.process_time() - started < 5


def test_the_time_of_a_parse_is_bounded_by_its_nesting() -> None:
    assert nesting("x = [[a.b(c)] for d in e]\nprint(f'{x} {{y}} {z!r:>{w}}')\nmatch = case(x)\n") == 0
    assert nesting('x = """' + "(" * 500 + '"""  # ' + "-" * 500) == 0
    for deep in ("x = " + "not " * 3000 + "1", "x = a" + ".b()" * 1500, "x = " + "f(" * 190 + ")" * 190):
        assert 0 < nesting(deep) < MOST


@pytest.mark.parametrize(
    "deep",
    [
        "x = " + "not " * 600 + "1",
        "x = a" + ".b" * 600,
        "x = a" + "()" * 600,
        "x = " + "1 + " * 1000 + "1",
        "x = " + "{1: " * 90 + "1" + "}" * 90,
        "if a:\n    pass\n" + "elif b:\n    pass\n" * 600,
        "x = " + "lambda: " * 400 + "1",
    ],
    ids=["not", "attributes", "calls", "sum", "dicts", "elifs", "lambdas"],
)
def test_what_python_takes_is_ported_however_deep(tmp_path: Path, deep: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(sft_script(before=deep))
    found = port_file(script)
    assert found.status == "ported" and deep.splitlines()[0] in found.after


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [" + "x, " * 99 + "]\nb: &b [" + "*a, " * 99 + "]\nc: [" + "*b, " * 99 + "]\n", "make it huge"),
        ("num_processes: &a [*a]\n", "holds itself"),
    ],
)
def test_a_yaml_of_aliases_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "launch.yaml"
    file.write_text("num_processes: 1\n" + text if "num" not in text else text)
    with pytest.raises(InputError, match=said):
        list(read_launch_config(file))


def test_a_file_without_our_libraries_is_read_and_no_more() -> None:
    module = parse_module(
        b"import os\n\n\ndef f(optimizer):\n    loss.backward()\n    optimizer.step(Config(x=1))\n", "x.py"
    )
    assert port_module(module, Options()).status == "unchanged"
    assert not {"_spans", "scopes", "parents"} & set(module.__dict__)


def test_what_is_the_same_for_all_trainers_of_a_file_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("porter.engine.reading.launched.untold_launch.usual_launch", lambda *given: asked.append(given))
    port(sft_script(after="trainer.train()\n" + "".join(f"t{n} = SFTTrainer(model, args)\n" for n in range(3))))
    assert len(asked) == 1


def test_a_name_that_is_bound_and_used_often_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    equals = cst.Attribute.deep_equals
    monkeypatch.setattr(cst.Attribute, "deep_equals", lambda *given: looked.append(1) or equals(*given))
    module = parse_module(b"import trl\n" + b"T = trl.SFTTrainer\nT(model)\n" * 50, "train.py")
    assert len(module.calls_by_name["trl.SFTTrainer"]) == 50 and len(looked) == 49


def test_a_number_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    from porter.source.parsing import read_module

    (tmp_path / "a.ipynb").write_text('{"nbformat": 4, "cells": [], "x": ' + "9" * 5000 + "}")
    with pytest.raises(InputError, match="broken JSON: a number too long"):
        read_module(tmp_path / "a.ipynb")
    (tmp_path / "ds.json").write_text('{"train_batch_size": ' + "9" * 5000 + "}")
    with pytest.raises(InputError, match="a number is too long"):
        list(read_launch_config(tmp_path / "ds.json"))


def test_a_notebook_with_a_word_of_megabytes_is_looked_at_in_time(tmp_path: Path) -> None:
    from porter.front.tree import TRAINS

    started = time.process_time()
    assert TRAINS.search("a" * 3_000_000 + "Trainer" * 100_000) is None
    assert time.process_time() - started < 5


def test_a_mistake_of_ours_is_a_finding_and_ends_no_folders_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(script: Path, text: str) -> None:
        if script.name == "broken.py":
            raise KeyError("odd")

    monkeypatch.delenv("TPU_PORT_TRACEBACK", raising=False)
    monkeypatch.setattr("porter.engine.reading.launched.untold_launch.usual_launch", wrong)
    for name in ("broken.py", "train.py"):
        (tmp_path / name).write_text(sft_script())
    ports = port_tree(tmp_path, Options()).ports
    [finding] = ports[Path("broken.py")].findings
    assert (finding.rule, finding.severity) == ("TP199", "error") and "KeyError: 'odd'" in finding.message
    assert finding.line > 0 and ports[Path("broken.py")].after == sft_script()
    assert ports[Path("train.py")].status == "ported"


def calls_of_port(text: str) -> int:
    """How many functions a port of a script calls: its work, which no busy machine makes longer."""
    module = parse_module(text.encode(), "train.py")
    with cProfile.Profile(subcalls=False, builtins=False) as profile:
        port_module(module, Options())
    return sum(each.callcount for each in profile.getstats())


PEFT = "from peft import LoraConfig, get_peft_model"
STAGE = "trainer = SFTTrainer(model=model, args=args)\ntrainer.train()\n"


@pytest.mark.parametrize(
    ("written", "few", "bound"),
    [
        (lambda n: sft_script(imports=PEFT, between="model = get_peft_model(model, LoraConfig())\n" * n), 20, 3.3),
        (lambda n: sft_script(between="model = model.to('cuda')\n" * n), 20, 3.3),
        (lambda n: sft_script(after="if a:\n    pass\n" + f"elif a:\n{indent(STAGE, '    ')}" * n), 10, 3.35),
        (lambda n: sft_script(after=STAGE * n + "print(model.what(1))\n" * n), 10, 3.4),
        (lambda n: sft_script(after="".join(STAGE.replace("trainer", f"t{k}") for k in range(n))), 10, 3.2),
    ],
    ids=["adapted", "moved", "elifs", "uses", "trainers"],
)
def test_what_stands_there_often_is_ported_in_the_time_of_its_number(
    written: Callable[[int], str], few: int, bound: float
) -> None:
    """From `few` to four times as many the work grows 3 times as much as to twice as many where it goes with the
    number, 5 times as much with its square."""
    port_module(parse_module(written(2).encode(), "train.py"), Options())  # the rules are read
    least, more, most = (calls_of_port(written(few * count)) for count in (1, 2, 4))
    assert most - least < bound * (more - least)


def test_what_no_person_writes_is_refused_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = port(sft_script(after=STAGE * MOST_TRAINERS))
    assert found.status == "unsupported" and found.after == found.before
    [error] = [finding for finding in found.findings if finding.severity == "error"]
    assert f"makes {MOST_TRAINERS + 1} trainers" in error.message
    assert found.before.splitlines()[error.line - 1].startswith("trainer = SFTTrainer(")
    monkeypatch.setattr(pipeline, "MOST_USES", 20_000)
    stages = STAGE * 60
    assert "in too many places" in str(port(sft_script(after=stages + "print(model.what(1))\n" * 400)).findings)
    assert port(sft_script(after=STAGE + "print(model.what(1))\n" * 400)).status == "partial"
    assert port(sft_script(between="model = model.to('cuda')\n" * (MAX_BINDINGS + 1))).status == "ported"

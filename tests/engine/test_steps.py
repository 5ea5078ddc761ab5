"""Steps are declared where they stand, found by folder, and sorted by what they need; answers have no order."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from porter.engine import pipeline
from porter.engine.packs.packs import load_packs
from porter.engine.script.declared_reads import Undeclared, watching
from porter.engine.script.porting import Porting
from porter.engine.script.training import Training
from porter.engine.steps.order import BadSteps, arranged, ordered, steps_in
from porter.engine.steps.step import Phase, Step, step
from porter.recipe import Value
from tests.engine.porting import PLAIN, check_becomes, port, sft_script


def made(name: str, **things: tuple[str, ...]) -> Step:
    def run() -> None: ...

    run.__qualname__ = name
    declared: Step = step(Phase.ANSWER, **things)(run).step  # type: ignore[attr-defined, arg-type]
    return declared


def every_step() -> tuple[Step, ...]:
    """Those of the engine and of the built-in packs."""
    return (*steps_in(pipeline.STEPS), *(each for pack in load_packs() for each in pack.steps))


def names(steps: tuple[Step, ...]) -> list[str]:
    return [each.name.rpartition(".")[2] for each in steps]


def test_what_fills_stands_before_what_settles_and_both_before_what_reads() -> None:
    a, b = made("reader", reads=("x",)), made("settler", settles=("x",))
    c, d = made("filler", fills=("x",)), made("another", fills=("x",), reads=("y",))
    assert names(ordered([a, b, c, d], given=["y"])) == ["another", "filler", "settler", "reader"]
    orders = {tuple(names(ordered([a, b, c, d], ["y"], random.Random(seed).choice))) for seed in range(20)}
    assert orders == {(*two, "settler", "reader") for two in (("another", "filler"), ("filler", "another"))}


def test_a_circle_and_an_input_that_nobody_fills_name_the_steps() -> None:
    one, two = made("one", reads=("x",), fills=("y",)), made("two", reads=("y",), fills=("x",))
    with pytest.raises(BadSteps, match=r"needs the next one's outcome: \S+\.(one -> \S+\.two|two -> \S+\.one)"):
        ordered([one, two])
    with pytest.raises(BadSteps, match=r"\.one wants x, which no step fills"):
        ordered([one])
    with pytest.raises(BadSteps, match=r"\.late wants z, which no step fills"):
        ordered([made("late", settles=("z",))])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "idioms"
    (folder / "acme").mkdir(parents=True)
    for name in ("", "acme"):
        (folder / name / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "idioms"]:
        del sys.modules[name]


def test_a_step_is_found_by_its_folder(package: Path) -> None:
    """Nobody imports or lists it; one that another module imports is found once."""
    declared = "from porter.engine.steps.step import Phase, step\n\n\n@step(Phase.SETTLE)\ndef sweep(porting): ...\n"
    (package / "acme" / "broom.py").write_text(declared)
    (package / "other.py").write_text("from .acme.broom import sweep\n")
    importlib.invalidate_caches()
    assert [each.name for each in steps_in(["idioms"])] == ["idioms.acme.broom.sweep"]


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        (lambda training: training.lora, "reads lora, which .*read_lora makes"),
        (lambda training: training.value("model.id"), "reads model.id, which .*read_model makes"),
        (lambda training: training.known("run.seed"), "reads run.seed, and no values"),
        (lambda training: training.fill({"run.seed": Value("literal", "1")}), "sets run.seed"),
        (lambda training: setattr(training, "refused", True), "sets refused"),
    ],
)
def test_an_undeclared_read_raises(
    asks: Callable[[Training], object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Step(asks, Phase.READ, "trainer", reads=("family",))
    declared = (*every_step(), late)
    monkeypatch.setenv("TPU_PORT_TRACEBACK", "1")
    with watching(declared) as watch:
        steps = arranged([watch.watched(each) if each is late else each for each in declared])
        monkeypatch.setattr(pipeline, "steps_of", lambda *_: steps)
        with pytest.raises(Undeclared, match=said):
            port(sft_script())


def test_a_section_of_the_recipe_and_its_places_touch() -> None:
    reader, filler = made("reader", reads=("data.*",)), made("filler", fills=("data.collator",))
    whole, one = made("whole", fills=("data.*",)), made("one", reads=("data.train",))
    assert names(ordered([reader, filler])) == ["filler", "reader"]
    assert names(ordered([one, whole])) == ["whole", "one"]
    with pytest.raises(BadSteps, match=r"\.one wants data\.train, which no step fills"):
        ordered([one, filler])


def test_settling_ends_and_says_where_it_was_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def falls(porting: Porting) -> None:
        porting.edit(0, 0, f"# {len(porting.edits)}\n", "TP001", "again")

    own = {**arranged(every_step()), (Phase.SETTLE, "file"): (Step(falls, Phase.SETTLE, "file"),)}
    monkeypatch.setattr(pipeline, "steps_of", lambda *_: own)
    said = [finding for finding in port(PLAIN).findings if finding.message.startswith("After 8 rounds")]
    assert [(finding.rule, finding.severity) for finding in said] == [("TP001", "warning")]


def test_what_only_a_dropped_function_used_goes_too() -> None:
    """`device` is read by `ask`, which falls as the keyword that calls it has gone: another round finds it."""
    made = 'device = torch.device("cuda")\n\n\ndef ask():\n    return torch.zeros(1, device=device).is_cuda\n'
    text = sft_script(before=f"import torch\n\n{made}", load=", use_safetensors=ask()")
    check_becomes(text, "rt.load_model(", gone=("device =", "ask", "torch"))

"""Verdicts on made logs: right ones are the same, each kind of mistake is found where it shows. On real ones: bench."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from porter.cli import run as tpu_port
from porter.compare import stand_in
from porter.compare.envelope import MOST_STEPS
from porter.compare.logs.log import Log
from porter.compare.logs.order import in_order
from porter.compare.logs.read import read
from porter.compare.run import compare
from porter.compare.student import beyond, two_sided
from porter.compare.verdict import Comparison
from porter.errors import InputError
from porter.report.comparison.page import comparison_page
from porter.validate.running.processes import RunFailed

from .made import PEAK, STEPS, every, lines, runs, state

SETTINGS = {"max_grad_norm": 1.0, "weight_decay": 0.01}


def beside(
    tmp_path: Path, tpu: list[dict[str, Any]], gpu: list[dict[str, Any]] | None = None, **more: Any
) -> Comparison:
    """The comparison of a GPU log with `tpu`, on an envelope of three further runs."""
    ours = state(tmp_path / "gpu.json", lines(0) if gpu is None else gpu, max_steps=STEPS)
    theirs = state(tmp_path / "tpu.json", tpu, port=SETTINGS)
    return compare(ours, theirs, **{"second": runs(tmp_path), **more})


def differing(found: Comparison) -> list[str]:
    return [check.name for check in found.checks if check.status == "differs"]


@pytest.mark.parametrize("seed", range(10, 22))
def test_another_seed_and_another_interval_are_the_same(tmp_path: Path, seed: int) -> None:
    found = beside(tmp_path, lines(seed), every(lines(0), (1, 5, 10)[seed % 3]))
    assert (found.word, found.exit_code) == ("same", 0), found.line
    assert found.windows[-1].step == STEPS


def test_another_objective_shows_in_the_first_window(tmp_path: Path) -> None:
    found = beside(tmp_path, lines(9, factor=0.55))
    assert (found.word, found.step, found.exit_code) == ("another objective", 1, 3)
    assert "assistant_only_loss" in found.first.cause  # type: ignore[union-attr]


def test_a_drift_is_dated(tmp_path: Path) -> None:
    found = beside(tmp_path, lines(9, drift=0.2))
    assert found.word == "drifts" and differing(found)[0] == "drift of the loss"
    assert found.step is not None and 60 < found.step < 150
    assert "learns less" in found.first.cause  # type: ignore[union-attr]


def test_rows_in_another_order_scatter(tmp_path: Path) -> None:
    import random

    mixed = lines(9)
    losses = [line["loss"] for line in mixed]
    random.Random(1).shuffle(losses)
    found = beside(tmp_path, [{**line, "loss": loss} for line, loss in zip(mixed, losses, strict=True)])
    assert "scatter of the loss" in differing(found)


def test_tokens_tell_other_rows_exactly(tmp_path: Path) -> None:
    other = [{**line, "num_tokens": line["num_tokens"] + (line["step"] > 30)} for line in lines(9)]
    found = beside(tmp_path, other)
    assert differing(found) == ["tokens fed"] and found.step == 31


def test_a_schedule_ahead_is_told_by_its_rates(tmp_path: Path) -> None:
    found = beside(tmp_path, lines(9, early=1))
    assert differing(found)[0] == "learning rate of every step that is logged"
    assert "one step ahead of the GPU's" in found.first.cause  # type: ignore[union-attr]


def test_rates_of_the_next_step_are_older_transformers(tmp_path: Path) -> None:
    older = lines(0, early=1)  # ends with 0, as a linear schedule does behind the last step
    assert older[-1]["learning_rate"] == 0
    found = beside(tmp_path, lines(9), older)
    assert found.word == "same" and "older transformers" in found.checks[1].detail
    cut = older[:150]  # where it doesn't show, it can't be told
    found = beside(tmp_path, lines(9), cut)
    assert found.checks[1].status == "skipped" and any("off by one" in line for line in found.untold)


def printed(path: Path, history: list[dict[str, Any]]) -> Path:
    """What a run prints of it, with its progress bar."""
    kept = ("loss", "learning_rate", "epoch")
    texts = [
        f"{ {name: f'{line[name]:.4g}' for name in kept} }\n {line['step']}/{STEPS} [00:01<00:01, 9it/s]\n"
        for line in history
    ]
    path.write_text("".join(texts), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("gpu", "tpu", "until", "want"),
    [
        (0, 1, STEPS, "the TPU's are those of the next step"),
        (1, 0, STEPS, "the GPU's are those of the next step"),
        (1, 1, STEPS, "both logs' are those of the next step"),
        (0, 0, STEPS, "up to 0.002"),
        (0, 1, 150, "the TPU's rates are the GPU's of the next step"),
        (1, 1, 150, "up to 0.00199"),
    ],
)
def test_printed_lines_of_a_port_may_have_the_next_steps_rates(
    tmp_path: Path, gpu: int, tpu: int, until: int, want: str
) -> None:
    ours = printed(tmp_path / "gpu.txt", lines(0, early=gpu)[:until])
    check = compare(ours, printed(tmp_path / "tpu.txt", lines(9, early=tpu)[:until])).checks[1]
    assert check.status == ("equal" if until == STEPS or gpu == tpu else "skipped") and want in check.detail


def test_rates_of_other_steps_are_not_compared(tmp_path: Path) -> None:
    ours = printed(tmp_path / "gpu.txt", every(lines(0, early=1), 10))
    check = compare(ours, printed(tmp_path / "tpu.txt", every(lines(9), 10))).checks[1]
    assert check.status == "skipped" and "which the other log has no rates of" in check.detail


def test_settings_that_lie_with_the_logs(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({**SETTINGS, "r": 8}))
    assert beside(tmp_path, lines(9)).word == "same"
    (tmp_path / "adapter_config.json").write_text(json.dumps({**SETTINGS, "weight_decay": 1e-4}))
    found = beside(tmp_path, lines(9))
    assert "weight_decay: GPU 0.0001, TPU 0.01" in found.line and "Optax's default" in found.first.cause  # type: ignore[union-attr]


def test_epochs_of_another_length(tmp_path: Path) -> None:
    found = beside(tmp_path, [{**line, "epoch": line["epoch"] * 1.1} for line in lines(9)])
    assert differing(found) == ["epochs"]


def test_without_an_envelope_only_the_gross_is_told(tmp_path: Path) -> None:
    assert beside(tmp_path, lines(9), second=[]).word == "not told"
    found = beside(tmp_path, lines(9, factor=0.5), second=[])
    assert (found.word, found.exit_code) == ("another objective", 3)


def stand_ins(tmp_path: Path, asked: list[int]) -> Callable[[int], list[Log]]:
    """Four made runs of as many steps as runs on a stand-in have, in place of `--source`'s."""

    def measured(steps: int) -> list[Log]:
        asked.append(steps)
        short = [lines(seed, steps=min(steps, MOST_STEPS)) for seed in range(1, 5)]
        paths = [state(tmp_path / f"stand_in_{seed}.json", history) for seed, history in enumerate(short)]
        return [in_order(path, read(path)) for path in paths]

    return measured


@pytest.mark.parametrize(("steps", "interval"), [(1000, 1), (2000, 100), (810, 200)])
def test_a_long_run_is_judged_as_far_as_stand_ins_train(tmp_path: Path, steps: int, interval: int) -> None:
    long, right, wrong = (
        every(lines(0, steps=steps), interval),
        lines(9, steps=steps),
        lines(9, steps=steps, factor=0.55),
    )
    asked: list[int] = []
    found = beside(tmp_path, right, long, second=[], stand_in=stand_ins(tmp_path, asked))
    assert (found.word, found.line) == ("same", "THE SAME to step 400") and asked == [steps // interval * interval]
    assert any("behind step 400: the envelope was measured up to there" in line for line in found.untold)
    assert beside(tmp_path, wrong, long, second=[], stand_in=stand_ins(tmp_path, asked)).exit_code == 3


def test_a_source_that_measures_nothing_is_said_and_not_asked_for_again(tmp_path: Path) -> None:
    asked: list[int] = []
    wide = every(lines(0, steps=1000), 250)
    found = beside(tmp_path, lines(9, steps=1000), wide, second=[], stand_in=stand_ins(tmp_path, asked))
    assert found.word == "not told" and "fewer than two of these logs' windows end within" in found.line
    assert "measure one with --source" not in found.line and asked == [], "no run is trained for nothing"
    found = beside(tmp_path, lines(9), second=[], stand_in=lambda steps: stand_ins(tmp_path, asked)(20))
    assert found.word == "not told" and found.line.endswith("compared steps: measure one with --second")
    assert beside(tmp_path, lines(9), second=[]).line.endswith("measure one with --source or --second")


def test_a_second_run_covers_half_of_the_steps(tmp_path: Path) -> None:
    short = state(tmp_path / "short.json", lines(3, steps=400))
    with pytest.raises(InputError, match="covers too little of the compared steps"):
        beside(tmp_path, lines(9, steps=1000), lines(0, steps=1000), second=[short])


def test_what_was_put_right_in_a_second_run_is_said(tmp_path: Path) -> None:
    odd = state(tmp_path / "odd.json", [*lines(3)[:50], *lines(3)[40:60], *lines(3)[80:]])
    found = beside(tmp_path, lines(9), second=[odd, *runs(tmp_path)])
    assert [note.removeprefix(f"{odd}: ") for note in found.notes] == [
        "10 lines were there twice",
        "steps 61-80: no line, the log has gaps",
    ]


def test_a_loss_that_is_lost_on_one_side(tmp_path: Path) -> None:
    odd = [{**line, "loss": float("nan") if line["step"] > 150 else line["loss"]} for line in lines(9)]
    found = beside(tmp_path, odd)
    assert "losses are finite" in differing(found) and found.step == 151


def test_what_has_nothing_in_common(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no steps in common: the GPU's log has steps 1-20, the TPU's steps 51-200"):
        beside(tmp_path, lines(9)[50:], lines(0)[:20])
    with pytest.raises(InputError, match="has the losses of the GPU's log to the last bit"):
        beside(tmp_path, lines(9), second=[state(tmp_path / "copy.json", lines(0))])


def test_logs_without_rates_say_so(tmp_path: Path) -> None:
    bare = [{"loss": line["loss"], "step": line["step"]} for line in lines(9)]
    found = beside(tmp_path, bare)
    assert found.word == "same"
    assert any("the TPU log has no learning rates" in line for line in found.untold)


def test_the_command_its_codes_and_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = state(tmp_path / "<b>gpu</b>.json", lines(0))
    right, wrong = (
        state(tmp_path / "right.json", lines(9)),
        state(tmp_path / "wrong\x1b[31m.json", lines(9, factor=0.5)),
    )
    second = [word for path in runs(tmp_path) for word in ("--second", str(path))]
    assert tpu_port(["compare", str(gpu), str(right), *second, "--html", str(tmp_path / "page.html")]) == 0
    assert "THE SAME to step 200" in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 3 and "<b>gpu" not in page and "&lt;b&gt;gpu" in page and "<script" not in page
    assert tpu_port(["compare", str(gpu), str(wrong), *second, "--json"]) == 3
    shown = capsys.readouterr().out
    answer = json.loads(shown)
    assert answer["verdict"] == "another objective" and answer["step"] == 1 and "\x1b" not in shown
    assert tpu_port(["compare", str(gpu), str(tmp_path / "none.json")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert tpu_port(["compare", str(gpu), str(right)]) == 2
    assert "NOT TOLD" in capsys.readouterr().out
    assert tpu_port(["compare", str(gpu), str(right), *second, "--source", str(gpu)]) == 2


def test_a_page_shows_the_envelope(tmp_path: Path) -> None:
    page = comparison_page(beside(tmp_path, lines(9)))
    assert page.count('class="band"') == 12 and f"{PEAK:g}" in page


@pytest.mark.parametrize(("freedom", "t"), [(1, 636.619), (3, 12.924), (9, 4.781), (30, 3.646)])
def test_students_t(freedom: float, t: float) -> None:
    assert two_sided(0.001, freedom) == pytest.approx(t, rel=1e-4)
    assert beyond(t, freedom) == pytest.approx(0.001, rel=1e-3)


def test_a_script_that_is_run_is_named_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*given: object) -> None:
        raise RunFailed("source", "ended", "no model")

    monkeypatch.setattr(stand_in, "run_source", run)
    (tmp_path / "train.py").write_text("print(1)\n")
    said: list[str] = []
    runs = stand_in.stand_in_runs(tmp_path / "train.py", runs=2, launch_config=None, timeout=9, say=said.append)
    with pytest.raises(InputError, match="can't be run for the envelope: ended: no model"):
        runs(4)
    assert said == [f"tpu-port: runs {tmp_path / 'train.py'}", "envelope: run 1 of 2, bf16"]

"""What two runs leave behind: each difference is found, and told with its line; formats are none."""

from __future__ import annotations

from typing import Any

import pytest

from porter.validate.comparing.left_behind import LEFT, check_left_behind, cut, not_compared
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.comparing.trace import Step, Trace
from porter.validate.comparing.verdict import Check


def event(kind: str, path: str | None = None, *items: Any, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "path": path, "items": list(items), "when": "after", "line": 41, **more}


CHECKPOINTS = {"kept": 2, "best": False, "horizon": 60}
SOURCE = [
    event("checkpoints", "out", 20, 40, 60, when="during", **CHECKPOINTS),
    event("log", None, 10, when="during"),
    event("evaluation", None, 1, loss=2.5),
    event("weights", "out_adapter", "adapter"),
    event("tokenizer", "out_adapter"),
    event("state"),
    event("upload", None, "me/model"),
]


def trace(events: list[dict[str, Any]], evaluations: tuple[tuple[int, float], ...] = ()) -> Trace:
    return Trace(config={"events": events}, steps=(Step(), Step(), Step(), Step()), evaluations=evaluations)


def check(port: list[dict[str, Any]], source: list[dict[str, Any]] = SOURCE) -> Check:
    [found] = check_left_behind(trace(source), trace(port), FLOAT32)
    assert found.name == LEFT
    return found


def without(kind: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(each for each in SOURCE if each["kind"] not in (kind, "state")), *more]


def test_the_same_things_are_equal() -> None:
    found = check(without("state"))

    assert found.status == "equal"
    assert "1 uploads" in found.detail and "checkpoints at steps 20, 40, 60" in found.detail


@pytest.mark.parametrize(
    ("port", "words"),
    [
        ([], "the source trains 2 times, the port 1 times"),
        ([event("training", None, 2, 3, loss=1.5)], "training 2 has 4 steps in the source, 3 in the port"),
        ([event("training", None, 2, 4, loss=1.6)], "training 2: mean loss 1.5000000 in the source, 1.6000000"),
    ],
)
def test_a_second_training_is_compared(port: list[dict[str, Any]], words: str) -> None:
    source = [event("training", None, 2, 4, loss=1.5)]
    assert check(source, source).status == "equal"
    found = check(port, source)
    assert found.status == "differs" and words in found.detail


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (without("weights"), "line 41 of the source: the source saves the adapter in out_adapter, the port doesn't"),
        (without("tokenizer"), "saves the tokenizer in out_adapter, the port doesn't"),
        (
            without("weights", event("weights", "other", "adapter")),
            "to out_adapter in the source, to other in the port",
        ),
        (
            without("weights", event("weights", "out_adapter", "model")),
            "the adapter in out_adapter, the port the model",
        ),
        ([*without("state"), event("tokenizer", "more")], "the port saves the tokenizer in more, the source doesn't"),
        (without("upload"), "the source uploads to me/model, the port nothing"),
        (without("upload", event("upload", None, "you/model")), "the port to you/model"),
        (without("checkpoints", event("checkpoints", None)), "the source saves checkpoints at steps 20, 40, 60, the"),
        (without("checkpoints"), "the source saves checkpoints at steps 20, 40, 60, the port none"),
        (
            without("checkpoints", event("checkpoints", "out", 30, 60, **CHECKPOINTS)),
            "checkpoints at steps 20, 40, 60 in the source, at steps 30, 60 in the port",
        ),
        (
            without("checkpoints", event("checkpoints", "out", by="time", kept=2, best=False)),
            "the source saves checkpoints at steps 20, 40, 60, the port by time",
        ),
        (
            without("checkpoints", event("checkpoints", "out", 20, 40, 60, kept=None, best=False)),
            "the source keeps 2, the port all",
        ),
        (
            without("checkpoints", event("checkpoints", "out", 20, 40, 60, kept=2, best=True)),
            "only the port keeps the best checkpoint",
        ),
        (without("checkpoints", event("checkpoints", "o", 20, 40, 60, **CHECKPOINTS)), "go to out in the source"),
        (without("evaluation"), "evaluates 1 times after training, the port 0 times"),
        (without("evaluation", event("evaluation", None, 1, loss=2.6)), "loss 2.5000000 in the source, 2.6000000"),
        (without("log", event("log", None, 1)), "every 10 steps in the source, every 1 steps in the port"),
    ],
)
def test_a_difference_is_told_with_its_line(port: list[dict[str, Any]], words: str) -> None:
    found = check(port)

    assert found.status == "differs"
    assert words in found.detail
    assert found.cause


def test_what_is_no_difference() -> None:
    # Tunix always saves the last step; an account may come from the token; noise of the trained weights.
    late = [event("checkpoints", "out", 20, 40, **{**CHECKPOINTS, "horizon": 50}), event("upload", None, "model")]
    port = [event("checkpoints", "out", 20, 40, 50, **CHECKPOINTS), event("upload", None, "me/model")]
    assert check(port, late).status == "equal"
    assert (
        check([event("evaluation", None, 1, loss=2.50001)], [event("evaluation", None, 1, loss=2.5)]).status == "equal"
    )
    assert check([], []).detail == "nothing on either side"
    none = [event("checkpoints", "out", **CHECKPOINTS)], [event("checkpoints", None)]
    assert check(none[1], none[0]).status == "equal"
    assert check([], [event("log", None, 10)]).status == "equal"


def test_evaluations_within_training_at_other_steps() -> None:
    source, port = trace([], ((0, 9.0), (2, 5.0), (4, 4.0))), trace([], ((0, 9.0), (4, 4.0)))
    [found] = check_left_behind(source, port, FLOAT32)

    assert "evaluations at steps 2, 4 in the source, at step 4 in the port" in found.detail
    # A port that stopped one step short, or was recorded longer, is told elsewhere.
    assert check_left_behind(source, trace([], ((2, 5.0), (4, 4.0), (8, 1.0))), FLOAT32)[0].status == "equal"


def test_scripts_that_were_not_run_to_their_end_are_not_compared() -> None:
    assert check([], [event("weights", "out", "model"), event("cut")]).status == "skipped"
    [found] = check_left_behind(trace(SOURCE), cut(trace([]), "after its training the port crashed"), FLOAT32)
    assert (found.status, found.detail) == ("skipped", "after its training the port crashed")


def test_traces_without_events_have_no_check() -> None:
    assert check_left_behind(Trace(), Trace(), FLOAT32) == []
    assert check_left_behind(trace(SOURCE), Trace(), FLOAT32)[0].status == "skipped"


def test_formats_that_cannot_be_equal_are_named() -> None:
    lines = " ".join(not_compared(trace(SOURCE), trace([])))

    for word in ("optimizer.pt", "trainer_state.json of save_state", "training_args.bin", "log lines"):
        assert word in lines
    assert "model card" not in lines
    assert not_compared(Trace(), Trace()) == []


def test_what_lies_in_the_folder_that_the_source_uploads_is_saved_there_too() -> None:
    """`push_to_hub=True` uploads from output_dir what the Trainer copied there from its last checkpoint."""
    port = [event("weights", "out", "adapter"), event("tokenizer", "out"), event("upload", "out", "me/model")]

    assert check(port, [event("upload", "out", "me/model")]).status == "equal"
    assert check(port, [event("upload", "other", "me/model")]).status == "differs"
    assert check(port, [event("upload", None, "me/model")]).status == "differs"

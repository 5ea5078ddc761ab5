"""Which prompts GRPO's micro-steps train, beside the samplers of TRL's releases and transformers' loop."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from porter.runtime.facts.releases import release
from porter.runtime.rollouts.prompt_order import PromptOrder


def made(**changed: Any) -> PromptOrder:
    usual: dict[str, Any] = {"prompts": 21, "generations": 4, "rows": 8, "accumulation": 2, "parts": 2}
    usual |= {"iterations": 1, "several": False, "leftovers": "left_out", "epochs": 2, "max_steps": -1}
    return PromptOrder(**{**usual, **changed})


def theirs(order: PromptOrder, floor: bool) -> list[list[list[int]]]:
    """The prompts of each micro-step by optimizer step, as RepeatSampler, a DataLoader and the Trainer make them."""
    trained, size = order.leftovers == "trained", order.at_once
    stream = [*range(order.prompts)]
    if not trained:
        chunks = [stream[start : start + size] for start in range(0, order.prompts, size)]
        whole = [chunk for chunk in chunks if len(chunk) == size]
        once = [[index for index in chunk for _ in range(order.generations)] for chunk in whole]
        rows = [[*chunk] * order.iterations for chunk in once]
        repeated = list(itertools.chain(*rows))
    else:
        repeated = [index for index in stream for _ in range(order.generations)]
        if order.several and (rest := len(repeated) % order.rows):
            repeated += repeated[: order.rows - rest]
    batches = [repeated[start : start + order.rows] for start in range(0, len(repeated), order.rows)]
    told = order.prompts * order.generations * order.iterations if order.leftovers == "counted" else len(repeated)
    length = math.ceil(told / order.rows)
    counted = max(length // order.accumulation if floor else math.ceil(length / order.accumulation), 1)
    steps = order.max_steps if order.max_steps > 0 else math.ceil(order.epochs * counted)
    epochs = math.ceil(order.max_steps / counted) if order.max_steps > 0 else math.ceil(order.epochs)
    assert order.steps == steps
    of_epoch = [batches[at : at + order.accumulation] for at in range(0, len(batches), order.accumulation)]
    return list(itertools.islice(itertools.chain(*[of_epoch] * epochs), steps))


def ours(order: PromptOrder) -> list[list[list[int]]]:
    found = []
    for group in order.groups(None):
        rows = [([prompt for prompt in chunk for _ in range(order.generations)], part) for _, chunk, part in group]
        found.append([given[part * order.rows : (part + 1) * order.rows] for given, part in rows])
    return found


@pytest.mark.parametrize("leftovers", ["left_out", "counted", "trained"])
@pytest.mark.parametrize(("epochs", "max_steps"), [(1, -1), (2.5, -1), (3, 17)])
@pytest.mark.parametrize(("prompts", "accumulation"), [(20, 2), (21, 2), (23, 3), (13, 1)])
@pytest.mark.parametrize("several", [False, True])
def test_prompts_come_as_trl_deals_them(
    leftovers: str, epochs: float, max_steps: int, prompts: int, accumulation: int, several: bool
) -> None:
    order = made(prompts=prompts, accumulation=accumulation, parts=accumulation, leftovers=leftovers)
    order = made(**{**vars(order), "epochs": epochs, "max_steps": max_steps, "several": several})
    assert ours(order) == theirs(order, floor=leftovers == "trained") and len(ours(order)) == order.lasts


def test_iterations_and_longer_generation_batches() -> None:
    for parts, iterations in [(4, 1), (2, 3), (1, 2)]:
        order = made(parts=parts, iterations=iterations)
        assert len(list(order.groups(0))) == order.steps == 2 * (21 // order.at_once * parts * iterations // 2)


def test_too_few_prompts_and_unknown_leftovers_are_refused() -> None:
    with pytest.raises(ValueError, match="3 prompts don't fill a generation batch of 4 prompts x 4"):
        made(prompts=3)
    assert made(prompts=3, leftovers="trained").steps == 2
    with pytest.raises(ValueError, match="choose one of trained, counted, left_out"):
        made(leftovers="kept")


@pytest.mark.parametrize(
    ("trl", "transformers", "leftovers"),
    [
        ("0.15.2", "4.49.0", "trained"),
        ("0.16.1", "4.50.3", "left_out"),
        ("0.19.1", "4.51.3", "left_out"),
        ("0.18.1", "4.52.4", "counted"),
        ("0.20.0", "4.54.0", "left_out"),
    ],
)
def test_what_a_release_does_with_them(trl: str, transformers: str, leftovers: str) -> None:
    assert release(trl, transformers).leftovers == leftovers

"""Optimizers as each side shows them: the runtime's by their own names, the GPU's by ones of the CPU."""

from __future__ import annotations

import inspect
from typing import Any

import jax.numpy as jnp
import optax
import pytest

from porter import runtime as rt
from porter.validate.jax_side.folded_batches import fold_batches
from porter.validate.jax_side.optax_settings import decayed, of_hf_optimizer, telling
from porter.validate.torch_side.gpu_libraries.torch_optimizers import on_cpu


def seen(*args: Any, **kwargs: Any) -> tuple[str, dict[str, Any]]:
    """What validate makes of a call of `rt.hf_optimizer`."""
    told: list[dict[str, Any]] = []
    telling("hf_optimizer", rt.hf_optimizer, lambda _, given: told.append(given))(*args, **kwargs)
    return of_hf_optimizer(told[0])


@pytest.mark.parametrize(
    ("name", "kind", "epsilon"),
    [
        ("adamw_torch_fused", "adamw", 1e-6),
        ("paged_lion_8bit", "lion", None),
        ("sgd", "sgd", None),
        ("rmsprop_bnb_8bit", "rmsprop", 1e-8),
        ("adagrad", "adagrad", 1e-10),
        ("adafactor", "adafactor", 1e-30),
    ],
)
def test_every_optimizer_of_the_runtime_is_seen(name: str, kind: str, epsilon: float | None) -> None:
    found, given = seen(name, 1e-3, b1=0.8, eps=1e-6, weight_decay=0.01, mask=rt.decay_mask)

    assert (found, given["eps"], given["weight_decay"]) == (kind, epsilon, 0.01)
    assert (given["learning_rate"], given["mask"]) == (1e-3, rt.decay_mask)
    assert given["b1"] == (0.8 if kind in ("adamw", "lion") else None)


def test_arguments_of_an_optimizer() -> None:
    _, given = seen("rmsprop", 1e-3, args="momentum=0.5, eps=1e-5,centered=True")

    assert given["eps"] == 1e-5
    assert given["arguments"] == {"momentum": 0.5, "alpha": 0.99, "centered": 1.0}
    of_releases = [seen("sgd", 1e-3, args="momentum=0.5", transformers=release)[1] for release in ("5.2.0", "5.3.0")]
    assert [of["arguments"]["momentum"] for of in of_releases] == [0.0, 0.5]  # the first reads none


def test_an_optimizer_tells_after_what_is_made_inside_it() -> None:
    told: list[str] = []
    inner = telling("adamw", optax.adamw, lambda name, _: told.append(name))
    outer = telling("outer", lambda rate: inner(rate), lambda name, _: told.append(name))
    outer(1e-3)

    assert told == ["adamw", "outer"]


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("adamw_bnb_8bit", "adamw_torch"),
        ("paged_adamw_32bit", "adamw_torch"),
        ("adamw_torch_4bit", "adamw_torch"),
        ("rmsprop_bnb_8bit", "rmsprop"),
        ("paged_lion_8bit", "paged_lion_8bit"),
        ("adamw_torch_fused", "adamw_torch_fused"),
        ("sgd", "sgd"),
    ],
)
def test_what_runs_on_a_cpu(name: str, here: str) -> None:
    assert on_cpu(name) == here


@pytest.mark.parametrize("name", ["ademamix_8bit", "paged_ademamix_32bit", "galore_adamw_8bit"])
def test_what_runs_on_a_gpu_alone_is_said(name: str) -> None:
    with pytest.raises(ValueError, match="can't be run here"):
        on_cpu(name)


def test_elements_that_decay() -> None:
    params = {"attn": {"w": jnp.zeros((4, 8))}, "norm": {"scale": jnp.zeros(8)}}

    assert decayed(0.01, rt.decay_mask, params) == [32, 40]
    assert decayed(0.01, None, params) == [40, 40]
    assert decayed(0.0, None, params) == [0, 40]
    assert decayed(0.01, {"attn": True, "norm": False}, params) == [32, 40]
    assert decayed(0.01, {"attn": True}, params) is None


def test_batches_of_folded_processes() -> None:
    class Batches:
        def __init__(self, rows: int, **given: Any) -> None:
            self.given = given

    seen: dict[str, Any] = {}
    fold_batches(Batches, 2, seen)

    assert Batches(3, processes=2, average_tokens_across_devices=False).given == {
        "processes": 1,
        "average_tokens_across_devices": True,
    }
    assert seen == {"processes": 2, "average_tokens": False}
    asked = inspect.signature(rt.SFTBatches.__init__).parameters
    assert {"processes", "average_tokens_across_devices"} <= set(asked)

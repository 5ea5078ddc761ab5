"""Settings that decide a run without showing in its first steps: each difference is the configuration's, and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from porter.validate.comparing.adapter_starts import starts_of, unlike
from porter.validate.comparing.configuration import check_configuration

from .test_compare import run, with_config

A, B = "model.layers.{}.self_attn.q_proj.lora_A.weight", "model.layers.{}.self_attn.q_proj.lora_B.weight"


def drawn(seed: int, *, scale: float = 1.0, b: float = 0.0, size: tuple[int, int] = (8, 64)) -> dict[str, np.ndarray]:
    """Two layers of adapters as PEFT draws them: A uniform in ±1/√fan-in, B zero."""
    draw = np.random.default_rng(seed)
    bound = scale / np.sqrt(size[1])
    state = {A.format(layer): draw.uniform(-bound, bound, size).astype(np.float32) for layer in (0, 1)}
    return state | {B.format(layer): b * draw.normal(size=(32, size[0])).astype(np.float32) for layer in (0, 1)}


def difference(source: dict[str, Any], port: dict[str, Any]) -> tuple[str, str]:
    """Detail and cause of the configuration check of two runs with these settings beside equal ones."""
    check = check_configuration(with_config(run(), **source), with_config(run(), **port))
    return (check.detail, check.cause) if check.status == "differs" else ("", "")


def test_dropout() -> None:
    detail, _ = difference({"lora_dropout": [0.05]}, {"lora_dropout": [0.1]})

    assert detail == "LoRA dropout: source 0.05, port 0.1"
    assert "port 0" in difference({"lora_dropout": [0.05]}, {"lora_dropout": [0.0]})[0]
    assert difference({"lora_dropout": [0.05]}, {"lora_dropout": [0.05]}) == ("", "")


def test_adapters_that_start_elsewhere() -> None:
    source, qwix = starts_of(drawn(1)), starts_of(drawn(2, scale=6**0.5))
    detail, cause = difference({"starts": source}, {"starts": qwix})

    assert "initial A of shape [8, 64]" in detail
    assert "2.4" in detail
    assert "rt.PEFT_INIT" in cause
    assert difference({"starts": source}, {"starts": starts_of(drawn(2))}) == ("", "")
    assert "initial B" in difference({"starts": source}, {"starts": starts_of(drawn(2, b=0.01))})[0]
    assert "initial B" in difference({"starts": starts_of(drawn(1, b=0.01))}, {"starts": source})[0]


@pytest.mark.parametrize("size", [(2, 8), (8, 16), (8, 64), (64, 256)])
def test_the_spread_of_two_draws_is_no_difference_at_any_size(size: tuple[int, int]) -> None:
    for seed in range(200):
        source, port = starts_of(drawn(2 * seed, size=size)), starts_of(drawn(2 * seed + 1, size=size))
        assert not unlike(source, port)
    larger = starts_of(drawn(1, scale=6**0.5, size=size))
    assert all(unlike(starts_of(drawn(seed, size=size)), larger) for seed in range(2, 100))


def test_the_decay_mask() -> None:
    # A whole model: 90 of 100 weights decay.
    full = {"lora_scaling": [], "tensors": {}}
    detail, cause = difference({**full, "decayed": [9000, 9100]}, {**full, "decayed": [9100, 9100]})

    assert "source 9000, 9100, port 9100, 9100" in detail
    assert "rt.decay_mask" in cause
    for port in ([9000, 9100], [9000, 9101], None, [5000, 5020]):
        # equal; a scale that is no weight in transformers; a mask that can't be read; no vision tower in the port
        assert difference({**full, "decayed": [9000, 9100]}, {**full, "decayed": port}) == ("", "")
    # Adapters: a fused one holds more elements, of which all decay.
    assert difference({"decayed": [100, 100]}, {"decayed": [128, 128]}) == ("", "")
    assert difference({"decayed": [100, 100]}, {"decayed": [0, 128]})[0]


def test_processes_and_their_averaging() -> None:
    two = {"processes": 2, "average_tokens": False}

    assert difference(two, two) == ("", "")
    assert "--launch-config" in difference(two, {**two, "processes": 1})[1]
    assert "average_tokens_across_devices" in difference(two, {**two, "average_tokens": True})[0]
    assert difference({"processes": 1, "average_tokens": False}, {"processes": 1, "average_tokens": True}) == ("", "")
    assert difference(two, {}) == ("", "")  # batches that are not the runtime's: their rows are compared


def test_an_optimizer_of_its_own_arguments() -> None:
    sgd = {"optimizer": "sgd", "beta1": None, "beta2": None, "epsilon": None}
    source = {**sgd, "optimizer_arguments": {"momentum": 0.9, "dampening": 0.0, "nesterov": 0.0}}

    assert difference(source, source) == ("", "")
    detail, _ = difference(source, {**sgd, "optimizer_arguments": {"momentum": 0.0, "dampening": 0.0, "nesterov": 0.0}})
    assert "momentum=0.9" in detail
    assert difference(source, {**sgd, "optimizer_arguments": None}) == ("", "")

"""What is done to a torch model that a script has loaded, so that float32 is compared on a machine of a few GB."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter import runtime as rt
from porter.runtime.facts.releases import mistral_means
from porter.validate.jax_side.multimodal_stand_ins import answer_as_multimodal
from porter.validate.torch_side.causal_masks import KEPT, cut_causal_masks
from porter.validate.torch_side.cuda.half_precision import LEFT_OUT, float32_again
from porter.validate.torch_side.multimodal_means import mean_as_multimodal, sums_means

from . import forked

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.real


def test_weights_that_were_cast_one_by_one_are_float32_again() -> None:
    model = torch.nn.Linear(2, 2)
    model.weight.data = model.weight.data.to(torch.float16)
    said: list[str] = []
    float32_again(model, said.append)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32} and said == [LEFT_OUT]
    float32_again(model, said.append)
    assert len(said) == 1


MADE = """
import torch
from porter.validate.torch_side.cuda.half_precision import keep_float32
said = []
keep_float32(said.append)
head = torch.nn.Sequential(torch.nn.Linear(3, 2, dtype=torch.bfloat16), torch.nn.LayerNorm(2, dtype=torch.float16))
print({weight.dtype for weight in head.parameters()}, head(torch.ones(3)).dtype, len(said))
print(torch.nn.Linear(3, 2, dtype=torch.float64).weight.dtype)
"""


def test_layers_that_a_script_makes_in_16_bits_are_float32(tmp_path: Path) -> None:
    """They are given what a model in float32 computes."""
    done = forked.run(MADE, cwd=tmp_path)
    assert done.stdout.splitlines() == ["{torch.float32} torch.float32 2", "torch.float64"], done.stderr


def test_a_mask_of_all_positions_is_cut_to_those_of_the_rows() -> None:
    model = torch.nn.Module()
    model.layers = torch.nn.Linear(2, 2)
    whole = torch.ones(KEPT + 8, KEPT + 8, dtype=torch.bool).triu(1)
    model.layers.register_buffer("causal_mask", whole, persistent=False)
    cut_causal_masks(model)
    assert torch.equal(model.layers.causal_mask, whole[:KEPT, :KEPT])
    assert "layers.causal_mask" not in model.state_dict()


@pytest.mark.parametrize(
    ("folder", "apart"),
    [
        ("google--gemma-3-4b-it", True),
        ("unsloth--medgemma-4b-it", True),
        ("google--medgemma-27b-text-it", False),
        ("google--gemma-3-1b-it", False),
        ("x", False),
    ],
)
def test_a_stand_in_has_the_mean_of_the_class_that_it_stands_for(folder: str, apart: bool) -> None:
    """AutoModelForCausalLM loads Gemma 3's multimodal class for all but the models of text."""
    model = SimpleNamespace(config=SimpleNamespace(_name_or_path=f"/work/models/{folder}"))
    mean_as_multimodal(model)
    assert (getattr(model, "accepts_loss_kwargs", True) is False) == apart


@pytest.mark.parametrize(
    ("folder", "mean"), [("google--gemma-3-4b-it", "micro_batch"), ("google--gemma-3-1b-it", "step")]
)
def test_a_port_that_asks_gets_that_answer_too(folder: str, mean: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told of the stand-in, a model of text, and called different."""
    monkeypatch.setattr(mistral_means, "_is_multimodal", mistral_means._is_multimodal)  # put back behind the test
    answer_as_multimodal(rt)
    family = SimpleNamespace(name="gemma3", table={"multimodal": ["Gemma3ForConditionalGeneration"]})
    model = SimpleNamespace(porter=SimpleNamespace(path=f"/work/models/{folder}", config={}, family=family))
    assert rt.mean_over(model, "4.57.6") == mean


def test_before_4_53_that_class_takes_a_number_of_tokens_and_makes_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transformers.__version__", "4.51.3")
    seen: list[dict[str, Any]] = []
    model = SimpleNamespace(config=SimpleNamespace(_name_or_path="/work/models/google--gemma-3-4b-it"))
    model.forward = lambda input_ids, labels, attention_mask, **kwargs: seen.append({"labels": labels, **kwargs})
    mean_as_multimodal(model)
    kinds = {one.kind for one in inspect.signature(model.forward).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD in kinds and not hasattr(model, "accepts_loss_kwargs")
    labels = torch.tensor([[5, 6, 7]])
    model.forward(labels, labels=labels, attention_mask=torch.tensor([[0, 1, 1]]), num_items_in_batch=3)
    assert seen[0]["labels"].tolist() == [[-100, 6, 7]] and "num_items_in_batch" not in seen[0]
    assert sums_means(SimpleNamespace(get_base_model=lambda: model)) and not sums_means(SimpleNamespace(forward=len))


def test_gemma_4_is_asked_for_its_own_class(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SimpleNamespace(accepts_loss_kwargs=True)
    monkeypatch.setattr("transformers.Gemma4ForConditionalGeneration", whole, raising=False)
    model = SimpleNamespace(config=SimpleNamespace(_name_or_path="/work/models/google--gemma-4-E2B-it"))
    mean_as_multimodal(model)
    assert not hasattr(model, "accepts_loss_kwargs")

"""What the runtime's helpers say that they read of an arguments object is what they read, in real calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter import runtime as rt
from porter.runtime import arguments
from porter.runtime.facts.argument_fields import CLASSES
from porter.runtime.facts.field_tables import find_table
from porter.runtime.facts.peft_targets import LoraSpec
from porter.runtime.models.loading import load_arguments
from porter.runtime.models.quantization import Quantization
from porter.runtime.settings.consumed import CONSUMED
from porter.runtime.training.training_settings import training_config, training_hooks

BATCHES = SimpleNamespace(steps=10, steps_per_epoch=5, accumulation=1, neftune_noise_alpha=0.1, metrics=None)


def recorded(name: str, use: Callable[[Any], object], **values: Any) -> set[str]:
    """The fields of the class `name` that a call reads of its object."""
    read: set[str] = set()
    made = getattr(arguments, name)
    table = find_table(CLASSES[name])

    def attribute(self: Any, field: str) -> Any:
        if table.row(field) is not None:
            read.add(field)
        return object.__getattribute__(self, field)

    held = made(**values)
    held.__class__ = type(name, (made,), {"__getattribute__": attribute})
    use(held)
    return read


def only_kept(cls: type) -> type:
    """A class that keeps what it is made with, so that its `from_args` is all that reads."""
    return type(cls.__name__, (cls,), {"__init__": lambda self, *args, **named: None})


def batches_of(cls: type, **named: Any) -> Callable[[Any], object]:
    count = 4 if issubclass(cls, rt.GRPOBatches) else 3
    return lambda held: only_kept(cls).from_args(held, *[None] * count, **named)  # type: ignore[attr-defined]


def calls(folder: Path) -> Mapping[str, set[str]]:
    """Of every helper, what it reads in calls that go all its ways."""
    out = {"output_dir": str(folder / "out")}
    best = out | {"eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 2, "save_steps": 2}
    best |= {
        "load_best_model_at_end": True,
        "push_to_hub": True,
        "neftune_noise_alpha": 0.1,
        "report_to": ["tensorboard"],
    }
    config = recorded("SFTConfig", lambda a: training_config(a, BATCHES, eval=True, best=True, uploads=True), **best)
    loads = recorded("SFTConfig", load_arguments, **out, model_init_kwargs={"dtype": "bfloat16"}, bf16=False, fp16=True)
    rewards = {"reward_funcs": []}
    preferences = ("DPOConfig", "ORPOConfig", "CPOConfig", "KTOConfig")
    return {
        "SFTBatches.from_args": recorded("SFTConfig", batches_of(rt.SFTBatches), **out),
        "TrainerBatches.from_args": recorded("TrainingArguments", batches_of(rt.TrainerBatches), **out),
        "PreferenceBatches.from_args": recorded("DPOConfig", batches_of(rt.PreferenceBatches), **out),
        "ORPOBatches.from_args": recorded("ORPOConfig", batches_of(rt.ORPOBatches), **out),
        "CPOBatches.from_args": recorded("CPOConfig", batches_of(rt.CPOBatches), **out),
        "KTOBatches.from_args": recorded("KTOConfig", batches_of(rt.KTOBatches), **out),
        "GKDBatches.from_args": recorded("GKDConfig", batches_of(rt.GKDBatches), **out),
        "GRPOBatches.from_args": recorded("GRPOConfig", batches_of(rt.GRPOBatches, **rewards), **out),
        "RLOOBatches.from_args": recorded("RLOOConfig", batches_of(rt.RLOOBatches, **rewards), **out),
        "preference_loss": set().union(*(recorded(name, rt.preference_loss, **out) for name in preferences)),
        "training_config": config,
        "training_hooks": recorded("SFTConfig", lambda held: training_hooks(held, BATCHES), **out),
        "load_arguments": loads,
        "apply_peft": {field.name for field in fields(LoraSpec)},  # `LoraSpec.read` takes these of a config's
        "load_model(quantization=)": recorded("BitsAndBytesConfig", Quantization.read),
    }


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    return calls(tmp_path_factory.mktemp("consumed"))


@pytest.mark.parametrize("helper", CONSUMED)
def test_a_helper_reads_what_it_declares(helper: str, read: Mapping[str, set[str]]) -> None:
    assert read[helper] == set(CONSUMED[helper])


def test_every_helper_that_takes_an_object_declares(read: Mapping[str, set[str]]) -> None:
    assert set(CONSUMED) == set(read)
    takes = {f"{name}.from_args" for name in rt.__all__ if hasattr(getattr(rt, name), "from_args")}
    assert takes - {"PolicyLoss.from_args"} <= set(CONSUMED)  # GRPOBatches hands its own on

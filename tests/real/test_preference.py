"""The rows and losses of TRL's preference trainers against the runtime's, on the same numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from porter import runtime as rt
from porter.runtime.losses import dpo_losses, preference_losses
from porter.validate.comparing import preferences

from .preference import documents, fed, ours, port_batches, rows, trainer

pytestmark = pytest.mark.real

ROWS = [
    ("dpo", "text", {}),
    ("dpo", "implicit", {"truncation_mode": "keep_end", "max_length": 20}),
    ("dpo", "chat", {"max_length": 30}),
    ("dpo", "implicit_chat", {"max_length": None, "dataloader_drop_last": True}),
    ("orpo", "text", {"max_length": 24}),
    ("cpo", "implicit_chat", {"max_length": 96}),
    ("kto", "labelled", {"max_length": 20}),
    ("kto", "chat", {"loss_type": "apo_zero_unpaired"}),
]


@pytest.mark.parametrize(("name", "kind", "settings"), ROWS)
def test_rows_are_trls(
    name: str, kind: str, settings: dict[str, Any], tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path
) -> None:
    data = rows(kind, 17)
    theirs = trainer(name, tiny, tmp_path, data, "gemma3" if name == "orpo" else "qwen3", **settings)
    batches = port_batches(name, theirs, data, tiny_mesh(1, 1))
    assert [documents(batch) for batch in fed(theirs)] == [batch for batch in ours(batches) if batch]
    assert batches.steps == theirs.state.max_steps


LOSSES: list[tuple[str, dict[str, Any]]] = [
    *[("dpo", {"loss_type": [name], "label_smoothing": 0.1}) for name in dpo_losses.DPO_TYPES],
    ("dpo", {"loss_type": ["sigmoid", "bco_pair", "sft"], "loss_weights": [0.8, 0.2, 1.0], "beta": 0.5}),
    ("dpo", {"loss_type": ["sigmoid"], "ld_alpha": 0.3}),
    ("dpo", {"loss_type": ["ipo"], "use_weighting": True}),
    *[("dpo", {"loss_type": ["sigmoid"], "f_divergence_type": name}) for name in dpo_losses.DIVERGENCES],
    ("orpo", {"beta": 0.3}),
    *[("cpo", {"loss_type": name, "label_smoothing": 0.1}) for name in (*preference_losses.CPO_TYPES, "alphapo")],
    ("cpo", {"loss_type": "simpo", "cpo_alpha": 0.0, "alpha": 0.1}),
    *[("kto", {"loss_type": name, "undesirable_weight": 1.5}) for name in preference_losses.KTO_TYPES],
]
DATA = {"dpo": "chat", "orpo": "text", "cpo": "text", "kto": "labelled"}
OF_TOKENS = {"entropy", "mean_token_accuracy", "logits/chosen", "logits/rejected"}
METRICS = {"rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected"}


@pytest.fixture(scope="module")
def trainers(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """`trainers("dpo")`: TRL's trainer with random adapters, made once."""

    @cache
    def find(name: str) -> Any:
        settings: dict[str, Any] = {"use_weighting": True} if name == "dpo" else {}
        settings |= {"per_device_train_batch_size": 5, "gradient_accumulation_steps": 1}
        made = trainer(name, tiny, tmp_path_factory.mktemp(name), rows(DATA[name], 5), **settings)
        made.model.eval()
        return made

    return find


@pytest.fixture(scope="module")
def ported(trainers: Callable[[str], Any], tiny_mesh: Any) -> Callable[..., Any]:
    """The port's batch of the same five rows on four devices, and the torch model's logits of it with and without
    LoRA."""

    @cache
    def find(name: str, *loss_type: str) -> Any:
        theirs = trainers(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(theirs.args, "loss_type", loss_type[0] if name == "kto" else loss_type, raising=False)
            batch = next(iter(port_batches(name, theirs, rows(DATA[name], 5), tiny_mesh(4, 1))))
        return batch, *(_logits(theirs, batch, adapters=on) for on in (True, False))

    return find


@pytest.mark.parametrize(("name", "settings"), LOSSES, ids=str)
def test_losses_and_metrics_are_trls(
    name: str,
    settings: dict[str, Any],
    trainers: Callable[[str], Any],
    ported: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = trainers(name)
    loss = getattr(rt, f"{name}_loss")(**settings)
    for key, value in vars(loss).items():  # what the trainer's constructor takes from its config
        monkeypatch.setattr(theirs, "loss_types" if (name, key) == ("dpo", "loss_type") else key, value, raising=False)
    if name == "kto":
        monkeypatch.setattr(theirs, "calculate_KL", loss.loss_type == "kto")
    with torch.no_grad():
        wanted = float(theirs.compute_loss(theirs.model, next(iter(theirs.get_train_dataloader()))))
    said = preferences.stored_metrics(theirs, "eval" if name in ("dpo", "kto") else "train")

    sorting = [each for each in getattr(loss, "loss_type", ()) if each.startswith("aot")] if name == "dpo" else []
    batch, policy, base = ported(name, *([loss.loss_type] if name == "kto" else sorting))
    inputs = preference_losses.Inputs.of(batch)
    got, metrics = loss.loss(policy, inputs, loss.logps(base, inputs) if loss.reference else None)
    # forward_kl takes exp() of a difference of sums over tokens: their last digit is a share of the loss.
    last_digit = float(np.spacing(np.abs(np.asarray(loss.logps(policy, inputs), np.float32)).max()))
    known = last_digit if settings.get("f_divergence_type") == "forward_kl" else 2e-6
    assert float(got) == pytest.approx(wanted, rel=known, abs=1e-7)
    assert not METRICS - set(metrics)
    said |= {key: values for key, values in getattr(theirs, "_metrics", {}).get("eval", {}).items() if key in OF_TOKENS}
    assert name in ("orpo", "cpo") or set(said) >= OF_TOKENS - ({"mean_token_accuracy"} if name == "kto" else set())
    for key, values in said.items():
        assert float(metrics[key]) == pytest.approx(values[-1], rel=1e-5, abs=1e-6), key


def _logits(theirs: Any, batch: dict[str, np.ndarray], *, adapters: bool) -> Callable[..., tuple[np.ndarray, None]]:
    """A model whose logits are those of the torch one."""
    tokens, mask = torch.tensor(batch["input_tokens"]), torch.tensor(batch["segment_ids"])
    with torch.no_grad(), contextlib.nullcontext() if adapters else theirs.model.disable_adapter():
        logits = theirs.model(input_ids=tokens, attention_mask=mask).logits.numpy()
    return lambda *_, **__: (logits, None)

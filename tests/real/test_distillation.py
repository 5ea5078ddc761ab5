"""Distillation against the real GKDTrainer: its rows, its loss and gradient, who samples, and a run of a port."""

from __future__ import annotations

import json
import random
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porter.front.port_file import port_file

from .sft import chat

pytestmark = pytest.mark.real


def conversations(count: int) -> list[dict[str, Any]]:
    rng = np.random.RandomState(5)
    return [{"messages": chat(rng, n)} for n in range(count)]


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])  # byte-level, and not
def test_rows_are_those_of_trls_collator(tiny: Callable[..., Path], family: str) -> None:
    from transformers import AutoTokenizer
    from trl.experimental.utils import DataCollatorForChatML

    from porter.runtime.distillation.distillation_rows import conversations as prepared

    tokenizer = AutoTokenizer.from_pretrained(tiny(family))
    rows = conversations(12)
    if family == "qwen3":
        rows.append({"messages": [{"role": "user", "content": "où 🙂"}, {"role": "assistant", "content": "🙂 là"}]})
    for longest in (None, 24):
        collate = DataCollatorForChatML(tokenizer, max_length=longest)
        found = prepared(rows, tokenizer, max_length=longest)
        assert len(found) == len(rows)
        for place, row in enumerate(rows):
            theirs = collate([row])
            ((start, stop),) = found.rows[place]
            assert found.tokens.ids[start:stop].tolist() == theirs["input_ids"][0].tolist()
            assert found.tokens.labels[start:stop].tolist() == theirs["labels"][0].tolist()


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_loss_and_gradient_are_trls(beta: float) -> None:
    import jax
    import torch
    from trl.experimental.gkd import GKDTrainer

    from porter.runtime.distillation.distillation_trainer import divergence

    rng = np.random.RandomState(1)
    student, teacher = (3 * rng.randn(2, 7, 40).astype(np.float32) for _ in range(2))
    labels = np.where(rng.rand(2, 7) < 0.4, -100, 1)
    theirs = torch.tensor(student, requires_grad=True)
    arguments = {"labels": torch.tensor(labels), "beta": beta, "num_items_in_batch": 9}
    loss = GKDTrainer.generalized_jsd_loss(theirs, torch.tensor(teacher), **arguments)
    loss.backward()
    ours, gradient = jax.value_and_grad(lambda s: ((labels != -100) * divergence(s, teacher, beta)).sum() / 9)(student)
    assert float(ours) == pytest.approx(float(loss), rel=1e-5)
    assert theirs.grad is not None
    assert np.abs(np.asarray(gradient) - theirs.grad.numpy()).max() <= 1e-6 * np.abs(theirs.grad.numpy()).max() + 1e-8


def test_the_student_samples_its_share(tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]) -> None:
    import jax.numpy as jnp
    from transformers import AutoTokenizer

    from porter import runtime as rt

    folder, mesh = tiny("qwen3"), tiny_mesh(2, 1)
    model, tokenizer = rt.load_model(str(folder), mesh, dtype=jnp.float32), AutoTokenizer.from_pretrained(folder)
    settings = {"batch_size": 2, "accumulation": 3, "max_steps": 2, "max_new_tokens": 6}
    own = rt.GKDBatches(conversations(12), tokenizer, mesh, **settings)
    half = rt.GKDBatches(conversations(12), tokenizer, mesh, model=model, lmbda=0.5, **settings)
    draws = random.Random(42)  # as transformers seeds Python's generator
    for ours, sampled in zip(own, half, strict=True):
        assert np.array_equal(ours["scale"], sampled["scale"])
        width = ours["labels"].shape[1]
        same = np.array_equal(ours["labels"], sampled["labels"][:, :width])
        assert same == (draws.random() > 0.5)
        for before, after in zip(ours["labels"], sampled["labels"], strict=True):
            start = int(np.flatnonzero(before != -100)[0])  # the prompt is the same
            assert same or ((after[:start] == -100).all() and 1 <= (after != -100).sum() <= 6)
    with pytest.raises(ValueError, match="max_new_tokens=3000: together more than the model's context of 2048"):
        rt.GKDBatches(conversations(2), tokenizer, mesh, model=model, lmbda=0.5, max_new_tokens=3000)
    with pytest.raises(ValueError, match="give GKDBatches the model that samples"):
        rt.GKDBatches(conversations(2), tokenizer, mesh, lmbda=0.5)


SCRIPT = """
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.gkd import GKDConfig, GKDTrainer

trainer = GKDTrainer(
    AutoModelForCausalLM.from_pretrained("student", dtype="float32"),
    AutoModelForCausalLM.from_pretrained("teacher", dtype="float32"),
    GKDConfig(output_dir="out", max_steps=3, per_device_train_batch_size=3, gradient_accumulation_steps=2,
    learning_rate=1e-3, lmbda=0.0, beta=0.2, max_length=48, bf16=False, use_cpu=True, logging_steps=1, report_to="none",
    save_strategy="no", gradient_checkpointing=False),
    train_dataset=load_dataset("json", data_files="chats.jsonl", split="train"),
    processing_class=AutoTokenizer.from_pretrained("student"),
)
trainer.train()
"""


def test_a_port_trains_as_trl(tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, model in (("student", "qwen3"), ("teacher", "qwen3_mha")):
        (tmp_path / name).symlink_to(tiny(model))
    source, script = tmp_path / "source.py", tmp_path / "port.py"
    source.write_text(SCRIPT, "utf-8")
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in conversations(30)), "utf-8")
    port = port_file(source)
    assert port.status == "ported", port.findings
    script.write_bytes(port.data)
    theirs, ours = (runpy.run_path(str(side))["trainer"] for side in (source, script))
    expected = [line for line in theirs.state.log_history if "loss" in line]
    found = [line for line in ours.training_hooks.history if "loss" in line]
    assert len(expected) == len(found) == 3
    for one, other in zip(expected, found, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-5)
        assert other["grad_norm"] == pytest.approx(one["grad_norm"], rel=1e-4)

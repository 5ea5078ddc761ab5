"""Every mistake that a port can make silently is caught, and named by the first check that can see it.

What else compares with these two recorded sources stands here, too: they are run once a process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.running.processes import RunFailed

from .long import long, mostly_long

pytestmark = pytest.mark.real

CLIP = "    optax.clip_by_global_norm(1.0),  # SFTConfig's default max_grad_norm\n"
MEAN_OF_MEANS = """
def mean_of_means(model, input_tokens, labels, positions, attention_mask, scale, segment_ids):
    count = (labels[:, 1:] != -100).sum()
    return rt.token_loss(model, input_tokens, labels, positions, attention_mask, jnp.ones_like(scale) / count)


trainer = (
"""

DROPPED_END = """
def without_end(batches):
    import numpy as np

    for batch in batches:
        labels = np.array(batch["labels"])
        for row in labels:
            places = np.flatnonzero(row != -100)
            row[places[-1:]] = -100
        yield {**batch, "labels": jnp.asarray(labels)}


trainer = (
"""

# name: (text in the port, its replacement, first check that differs, words in its cause)
QWEN3 = {
    "alpha times two": ("alpha=16.0", "alpha=32.0", checks.CONFIGURATION, "2 times the source's"),
    "wrong mask": ("    assistant_only_loss=True,\n", "", checks.BATCHES, "trains on every token"),
    "schedule off by one": (
        "optax.adamw(schedule,",
        "optax.adamw(lambda step: schedule(step + 1),",
        checks.LEARNING_RATE,
        "one ahead",
    ),
    "unshuffled data": ("    seed=42,\n)", '    sampling="sequential",\n)', checks.BATCHES, "not shuffled"),
    "mean of micro-batch means": ("trainer = (\n", MEAN_OF_MEANS, checks.INITIAL_LOSS, "mean of micro-batch means"),
    # What ports of scripts for older releases get wrong.
    "dropped end token": ("trainer = (\n", DROPPED_END, checks.BATCHES, "the loss mask"),
    "warm-up off by one": ("warmup_steps=5", "warmup_steps=6", checks.LEARNING_RATE, "warmup"),
    "another seed of the data's order": ("    seed=42,\n)", "    seed=43,\n)", checks.BATCHES, "shuffling or its seed"),
    "one step fewer, as by floor": ("max_steps=60", "max_steps=59", checks.CONFIGURATION, "schedule's length"),
    "float32 for a half-precision base": ("dtype=jnp.bfloat16", "dtype=jnp.float32", checks.CONFIGURATION, "dtype="),
    "rows of another release": (
        "    assistant_only_loss=True,\n",
        '    assistant_only_loss=False,\n    trl="0.8.6",\n',
        checks.BATCHES,
        "",
    ),
    "clipping dropped": (CLIP, "", checks.CONFIGURATION, "clipping was dropped"),
    "weight decay 1e-4": (", weight_decay=0.01", "", checks.CONFIGURATION, "Optax's default"),
    "adapter saved elsewhere": ('(model, "out/adapter"', '(model, "out"', checks.LEFT, "another folder"),
    "checkpoints more often": ("FixedIntervalPolicy(500)", "FixedIntervalPolicy(50)", checks.LEFT, "save_steps"),
}
# The smallest ones of training: their settings show them, and after twenty steps the weights alone would too.
SMALL = {
    "clipping dropped": (CLIP, "", "clipping was dropped"),
    "weight decay 1e-4": (", weight_decay=0.01", "", "Optax's default"),
}
STEPS = 4  # in which every mistake must show
SHORT = ("mean of micro-batch means", "dropped end token", "clipping dropped")
MAX_LENGTH = "    max_length=128,\n"
SHAPES = "    step_packing=[(4, 128), (8, 128), (4, 256)],\n"


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{old!r} is not in the port once"
    text = text.replace(old, new)
    text = (
        text.replace("trainer.train(batches)", "trainer.train(without_end(batches))") if "without_end" in new else text
    )
    return text.replace(".with_loss_fn(rt.token_loss)", ".with_loss_fn(mean_of_means)") if "mean_of" in new else text


def verdict(source: Any, port: Any) -> list[Any]:
    found = checks.compare(source, port, FLOAT32)
    return [check for check in found if check.status == "differs"]


@pytest.fixture(scope="module")
def qwen3(recorded: Callable[..., Any]) -> Any:
    return recorded("sft_lora_qwen3", steps=20, mesh=(2, 4))


@pytest.fixture(scope="module")
def brief(recorded: Callable[..., Any], tiny: Callable[..., Path]) -> Any:
    """As `validate --steps 4 --quick` runs it: a trace of its own, so that its weights are compared too. No mistake
    needs a second layer to be seen."""
    return recorded("sft_lora_qwen3", steps=STEPS, mesh=(1, 1), model=tiny("qwen3", num_hidden_layers=1))


@pytest.fixture(scope="module")
def gemma4(recorded: Callable[..., Any]) -> Any:
    return recorded("sft_lora_gemma4", steps=3, mesh=(4, 2), processes=2)


@long  # tests/real/test_validate.py has this pair on two meshes, for fewer steps
def test_the_port_without_a_mistake_is_equal(qwen3: Any) -> None:
    port = qwen3.run(qwen3.port.read_text(), steps=20)

    assert verdict(qwen3.trace, port) == []


@pytest.mark.parametrize("mistake", mostly_long(QWEN3, short=SHORT))
def test_a_mistake_is_caught_where_it_shows_first(brief: Any, mistake: str) -> None:
    old, new, where, why = QWEN3[mistake]
    port = brief.run(changed(brief.port.read_text(), old, new), steps=STEPS)

    first = verdict(brief.trace, port)[0]

    assert first.name == where
    assert why in first.cause


@long
@pytest.mark.parametrize("mistake", SMALL)
def test_a_small_mistake_is_caught_by_its_setting_and_by_the_weights(qwen3: Any, mistake: str) -> None:
    old, new, why = SMALL[mistake]
    port = qwen3.run(changed(qwen3.port.read_text(), old, new), steps=20)

    differing = {check.name: check for check in verdict(qwen3.trace, port)}

    assert next(iter(differing)) == checks.CONFIGURATION
    assert why in differing[checks.CONFIGURATION].cause
    assert checks.WEIGHTS in differing, "the weights alone must show it too"
    print(mistake, {name: check.measured for name, check in differing.items()})


@long
def test_gemma4_without_its_global_keys(gemma4: Any) -> None:
    text = gemma4.port.read_text()
    blind = text.replace("q_einsum|k_einsum|", "q_einsum|")
    targets = next(line for line in text.splitlines(keepends=True) if line.startswith("    targets="))

    # As written the port doesn't train at all: apply_lora counts the adapters.
    with pytest.raises(RunFailed, match="port crashed") as failure:
        gemma4.run(blind, steps=1)
    assert "k_proj" in failure.value.output

    unasked = blind.replace(targets, targets.replace("^(?!", r"^(?!.*layers\.5\.self_attn\.k_proj)(?!"))
    first = verdict(gemma4.trace.first(1), gemma4.run(unasked, steps=1))[0]

    assert first.name == checks.CONFIGURATION
    assert "lacks k_proj in layers 5" in first.cause


@long
def test_gemma4_with_keys_and_values_in_one_adapter(gemma4: Any) -> None:
    text = gemma4.port.read_text().replace("    rt.separate_kv(model),\n", "")
    text = text.replace('rt.save_adapter(model, "out/adapter", tokenizer)\n', "")  # which refuses what can't be PEFT's

    differing = {check.name: check for check in verdict(gemma4.trace, gemma4.run(text, steps=3))}

    assert "put rt.separate_kv(model) first" in differing[checks.CONFIGURATION].cause
    assert checks.GRAD_NORM in differing, "the gradient shows it from the first step on"


def test_what_the_first_steps_do_not_show_is_in_the_configuration(brief: Any) -> None:
    """Training starts from the source's adapter and without dropout: only what the port asked for tells."""
    text = brief.port.read_text().replace("            lora_a_initializer=rt.PEFT_INIT,\n", "")
    port = brief.run(text.replace("dropout=0.05", "dropout=0.1"), steps=2)

    found = {check.name: check for check in checks.compare(brief.trace.first(2), port, FLOAT32)}

    assert found[checks.CONFIGURATION].status == "differs"
    assert "LoRA dropout: source 0.05, port 0.1" in found[checks.CONFIGURATION].detail
    assert "initial A of shape" in found[checks.CONFIGURATION].detail
    assert found[checks.LOSS].status == "equal"


@long
def test_packed_steps_are_trls(gemma4: Any) -> None:
    """Gemma 4 with local, global and K=V layers: windows, positions and masks of rows that share one."""
    text = gemma4.port.read_text(encoding="utf-8")
    assert text.count(MAX_LENGTH) == 1
    port = gemma4.run(text.replace(MAX_LENGTH, MAX_LENGTH + SHAPES), steps=3)
    assert verdict(gemma4.trace, port) == []
    assert all(sum(step.micro) == 16 for step in port.steps)
    assert max(len(step.micro) for step in port.steps) < 4  # GPU micro-steps of four rows

"""Verdicts on logs of real runs: TRL on an H200, and ports under Tunix with JAX on the same card.

`recorded_h200.json` holds the losses, tokens and (where they matter) gradient norms of 200 steps of each, of recipes on
models of at most 3 million random weights; docs/compare.md says what was run.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.compare.run import compare
from porter.compare.verdict import Comparison
from porter.errors import InputError

from .made import state
from .test_compare import differing

RECORDED = json.loads((Path(__file__).parent / "recorded_h200.json").read_text(encoding="utf-8"))


def log(folder: Path, name: str) -> Path:
    """The trainer_state.json of a recorded run; NaN stands in it as Python writes it."""
    columns = RECORDED[name]
    names = [*columns]
    norms = {"grad_norm": [float("nan") if norm is None else norm for norm in columns.get("grad_norm", [])]}
    values = zip(*(norms.get(each) or columns[each] for each in names), strict=True)
    history = [{**dict(zip(names, line, strict=True)), "step": step} for step, line in enumerate(values, 1)]
    return state(folder / f"{name.replace(' ', '_')}.json", history, port={} if "port" in name else None)


def judged(folder: Path, gpu: str, tpu: str, *second: str) -> Comparison:
    return compare(log(folder, gpu), log(folder, tpu), second=[log(folder, each) for each in second])


@pytest.mark.parametrize("recipe", ["lora_bf16", "qlora", "dpo_lora", "packed"])
def test_a_port_is_the_gpu_s_run(tmp_path: Path, recipe: str) -> None:
    """With bitsandbytes' NF4 and paged 8-bit AdamW on the GPU in qlora."""
    for gpu, other in (("42", "1"), ("1", "42")):
        found = judged(tmp_path, f"{recipe} gpu {gpu}", f"{recipe} port 42", f"{recipe} gpu {other}")
        assert (found.word, found.exit_code) == ("same", 0), found.line


@pytest.mark.parametrize(
    ("recipe", "mistake", "check"),
    [
        ("lora_bf16", "unmasked", "scatter of the loss"),
        ("qlora", "unmasked", "drift of the loss"),
        ("dpo_lora", "beta", "drift of the loss"),
        ("dpo_lora", "order", "tokens fed"),
        ("packed", "bfd", "tokens fed"),
    ],
)
def test_a_mistake_isn_t(tmp_path: Path, recipe: str, mistake: str, check: str) -> None:
    found = judged(tmp_path, f"{recipe} gpu 42", f"{recipe} {mistake}", f"{recipe} gpu 1")
    assert found.exit_code == 3 and differing(found)[0] == check, found.line


def test_what_two_seeds_lie_apart_hides_means_of_means(tmp_path: Path) -> None:
    """What docs/compare.md says isn't found: it is told here when it is."""
    assert judged(tmp_path, "lora_bf16 gpu 42", "lora_bf16 means", "lora_bf16 gpu 1").word == "same"


def test_all_weights_are_judged_by_another_kernel(tmp_path: Path) -> None:
    """Another seed changes nothing there: on one GPU the run repeats to the last bit."""
    gpu, eager = "full_bf16 gpu 42", "full_bf16 gpu eager"
    assert judged(tmp_path, gpu, "full_bf16 port 42", eager).word == "same"
    assert judged(tmp_path, gpu, "full_bf16 means", eager).word == "another objective"
    with pytest.raises(InputError, match="another seed changes nothing in this recipe") as raised:
        judged(tmp_path, gpu, "full_bf16 port 42", gpu)
    assert "bf16=False" in str(raised.value)


def test_a_loss_that_transformers_writes_0_for_is_none(tmp_path: Path) -> None:
    """The gradient was NaN at step 28 of the GPU's run, and all weights behind it."""
    found = judged(tmp_path, "checkpointed gpu 42", "checkpointed port 42")
    assert (found.step, found.exit_code) == (29, 3) and differing(found)[0] == "losses are finite"
    assert any("where transformers writes 0" in line for line in found.untold)
    assert found.windows[-1].step == 28

"""What GRPO and RLOO hold the policy against: the loaded model, the base of adapters, the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .grpo import GENERATIONS, LONGEST, QUESTIONS, REWARDS, completions_of, rollouts_of, scored

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("restored")]


def test_reference_and_old_log_probabilities_are_trls(trainers: Any, ours: Any) -> None:
    """Before a step both are those of the loaded model: TRL's of its reference."""
    trainer = trainers["grpo"]
    trainer.beta = 0.1
    completions = completions_of(5, trainer._tokenizer.eos_token_id)
    inputs = scored(trainer, completions)
    theirs = inputs["ref_per_token_logps"].numpy()
    masks = inputs["completion_mask"].numpy()
    for rollout, row, mask in zip(rollouts_of(ours, completions), theirs, masks, strict=True):
        count = int(mask.sum())
        assert np.allclose(rollout.reference_logps[:count], row[:count], rtol=0, atol=2e-5)


def test_the_reference_may_be_the_base_of_adapters(
    tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]
) -> None:
    """As TRL before 0.27 has it, which turns the adapters off."""
    import jax
    import jax.numpy as jnp
    from flax import nnx
    from transformers import AutoTokenizer

    from porter import runtime as rt

    folder, mesh = tiny("qwen3"), tiny_mesh(2, 2)
    base = rt.load_model(str(folder), mesh, dtype=jnp.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def said(model: Any, reference: str) -> list[Any]:
        settings = {"batch_size": 16, "num_generations": GENERATIONS, "max_completion_length": LONGEST}
        rows = [{"prompt": text, "answer": "say"} for text in QUESTIONS]
        loss = rt.PolicyLoss(beta=0.1)
        made = rt.GRPOBatches(
            rows, tokenizer, mesh, model, reward_funcs=REWARDS, loss=loss, max_steps=1, reference=reference, **settings
        )
        rollouts = rollouts_of(made, completions_of(5, tokenizer.eos_token_id))
        return [rollout.reference_logps for rollout in rollouts]

    expected = said(base, "base")
    adapted = rt.apply_peft(base, {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}, mesh, seed=1)
    nnx.update(adapted, jax.tree.map(lambda array: array + 0.1, nnx.state(adapted, nnx.LoRAParam)))
    for reference in ("base", "checkpoint"):  # of which the base is
        assert np.allclose(said(adapted, reference), expected, rtol=0, atol=2e-5)
    assert not np.allclose(said(adapted, "start"), expected, rtol=0, atol=1e-3)
    with pytest.raises(ValueError, match="reference='policy' is not known"):
        said(adapted, "policy")


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_the_reference_may_be_the_checkpoint(
    tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any], tmp_path: Path, kind: str
) -> None:
    """TRL's own reference is the stored model, whatever was done to the one that it is given."""
    import jax.numpy as jnp
    import torch
    import trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from porter import runtime as rt

    folder, name = tiny("qwen3"), kind.upper()
    rows = [{"prompt": text, "answer": "say"} for text in QUESTIONS]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    common: dict[str, Any] = {"num_generations": GENERATIONS, "max_completion_length": LONGEST, "beta": 0.1}
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="eager")
    with torch.no_grad():
        theirs.model.norm.weight.mul_(1.5)
    usual = {"bf16": False, "use_cpu": True, "gradient_checkpointing": False, "report_to": "none"}
    args = getattr(trl, f"{name}Config")(str(tmp_path), per_device_train_batch_size=16, **common, **usual)
    trainer = getattr(trl, f"{name}Trainer")(theirs, REWARDS, args, Dataset.from_list(rows), None, tokenizer)
    assert float(trainer.ref_model.model.norm.weight.detach().abs().sum()) * 1.5 == pytest.approx(
        float(theirs.model.norm.weight.detach().abs().sum())
    )

    mesh = tiny_mesh(2, 2)
    model: Any = rt.load_model(str(folder), mesh, dtype=jnp.float32)
    loss = {"loss": rt.PolicyLoss(beta=common.pop("beta"))} if kind == "grpo" else {}

    def said(reference: str) -> list[Any]:
        made = getattr(rt, f"{name}Batches")(
            rows, tokenizer, mesh, model, reward_funcs=REWARDS, max_steps=1, batch_size=16, reference=reference,
            **common, **loss,
        )  # fmt: skip
        rollouts = rollouts_of(made, completions_of(5, tokenizer.eos_token_id))
        return [rollout.reference_logps for rollout in rollouts]

    stored = said("start")
    model.final_norm.w.set_value(model.final_norm.w.get_value() * 1.5)
    assert not np.allclose(said("start"), stored, rtol=0, atol=1e-3)
    assert np.allclose(said("checkpoint"), stored, rtol=0, atol=1e-6)

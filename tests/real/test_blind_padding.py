"""What is predicted from padding in front of a row, against torch's attention in each way that transformers had."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.real

RELEASES = {"nothing": "5.12.1", "row": "4.40.2", "mean": "4.30.2", "past": "4.35.2"}


@pytest.mark.parametrize("of_no_token", list(RELEASES))
@pytest.mark.parametrize("family", ["llama3", "mistral", "gemma2", "gemma3", "qwen2"])
def test_loss_and_gradient_are_torchs(tiny: Any, tiny_mesh: Any, family: str, of_no_token: str) -> None:
    import jax
    import torch
    import transformers
    from flax import nnx

    from porter.runtime.batches.trainer_batches import TrainerBatches
    from porter.runtime.losses.token_loss import model_inputs, token_loss
    from porter.runtime.models.load_model import load_model

    gemma = family.startswith("gemma")
    windowed = gemma or family == "mistral"
    wide = 3 if windowed else 1  # beyond the window of those that have one
    rows = [list(range(10, 10 + size * wide)) for size in (6, 3, 4)]
    width = 8 * wide  # padded to more than the longest, as pad_to_multiple_of does
    ids = np.array([[0] * (width - len(row)) + row for row in rows])
    seen = np.array([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    batch = {"input_ids": ids, "attention_mask": seen, "labels": np.where(seen, ids, -100)}

    folder = tiny(family)
    # sdpa's gradient of Gemma's mask is no number to hold.
    kind = "eager" if of_no_token in ("mean", "past") or gemma else "sdpa"
    source = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=kind)
    given = {name: torch.tensor(value) for name, value in batch.items()}
    if of_no_token == "past":  # two masks of the smallest number, added: what neither lets see is -inf
        smallest = np.finfo(np.float32).min
        ahead = np.where(np.tril(np.ones((width, width), bool)), 0.0, smallest)[None]
        with np.errstate(over="ignore"):
            mask = ahead.astype(np.float32) + np.where(seen[:, None], 0.0, smallest).astype(np.float32)
        given["attention_mask"] = torch.tensor(mask[:, None])
        given["position_ids"] = torch.arange(width)[None].expand(len(rows), -1)
    elif of_no_token == "row" or gemma:  # the mask as these releases made it; Gemma's let no blind query see its row
        causal = np.tril(np.ones((width, width), bool)) & seen[:, None].astype(bool)
        window = getattr(source.config, "sliding_window", None) or width
        near = np.tril(np.ones((width, width), bool)) & ~np.tril(np.ones((width, width), bool), -window)
        causal &= near if family == "mistral" else True  # in every layer
        blind = ~causal.any(-1, keepdims=True)
        mask = np.where(causal | (blind & (of_no_token == "row" and not gemma)), 0.0, np.finfo(np.float32).min)
        masks = {"full_attention": mask, "sliding_attention": np.where(near, mask, np.finfo(np.float32).min)}
        masks = {kind: torch.tensor(mask[:, None], dtype=torch.float32) for kind, mask in masks.items()}
        given["attention_mask"] = masks if gemma else masks["full_attention"]
        given["position_ids"] = torch.arange(width)[None].expand(len(rows), -1)
    if gemma and of_no_token == "nothing":
        pytest.skip("a mask of numbers, as Gemma had it before, never gives zeros")
    if windowed and of_no_token == "past":
        pytest.skip("no release of these added two masks up, but Mistral's first ones")
    loss = source(**given).loss
    loss.backward()
    expected = source.model.layers[0].self_attn.v_proj.weight.grad.norm().item()

    mesh = tiny_mesh(1, 1)
    made = TrainerBatches(
        [{"input_ids": row} for row in rows],
        lambda _: batch,
        mesh,
        batch_size=len(rows),
        max_steps=1,
        sampling="sequential",
        transformers=RELEASES[of_no_token],
    )
    model = load_model(folder, mesh, dtype=jax.numpy.float32)
    step = nnx.jit(nnx.value_and_grad(lambda model, batch: token_loss(model, **model_inputs(batch))))
    told = pytest.warns(UserWarning, match="transformers 4.53") if gemma and of_no_token == "row" else nullcontext()
    with mesh, told:
        found, gradient = step(model, next(iter(made)))

    assert float(found) == pytest.approx(loss.item(), rel=1e-6)
    layer = gradient["layers"][0]["attn"]
    held = layer["kv_einsum"]["w"].get_value()[1] if "kv_einsum" in layer else layer["v_proj"]["w"].get_value()
    assert float(np.linalg.norm(np.asarray(held))) == pytest.approx(expected, rel=1e-5)


def test_padding_that_has_labels_sees_nothing_under_flash_attention(tiny: Any, tiny_mesh: Any) -> None:
    """Prompt, padding, answer, padding, of which all but the prompt is trained: flash attention leaves padding out, so
    that it gets zeros. torch's attention does as much where a mask lets a query see nothing."""
    import jax
    import torch
    import transformers
    from flax import nnx

    from porter.runtime.batches.trainer_batches import TrainerBatches
    from porter.runtime.losses.token_loss import model_inputs, token_loss
    from porter.runtime.models.load_model import load_model

    seen = np.array([[1, 1, 1, 1, 0, 0, 1, 1, 0, 1], [1, 1, 0, 0, 0, 0, 1, 1, 1, 0]])
    ids = np.where(seen, np.arange(10, 30).reshape(2, 10), 0)
    batch = {"input_ids": ids, "attention_mask": seen, "labels": np.where(np.arange(10) < 6, -100, ids)}
    folder = tiny("qwen2")
    source = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    both = np.tril(np.ones((10, 10), bool)) & (seen[:, None] & seen[:, :, None]).astype(bool)
    given = {"input_ids": ids, "labels": batch["labels"], "attention_mask": both[:, None]}
    places = torch.arange(10)[None].expand(2, -1)
    wanted = source(**{name: torch.tensor(value) for name, value in given.items()}, position_ids=places).loss.item()

    mesh, model = tiny_mesh(1, 1), load_model(folder, tiny_mesh(1, 1), dtype=jax.numpy.float32)
    losses = []
    for attention in ("flash_attention_2", "sdpa"):
        settings: dict[str, Any] = {"batch_size": 2, "max_steps": 1, "sampling": "sequential", "attention": attention}
        made = TrainerBatches([{"input_ids": row} for row in ids], lambda _: batch, mesh, **settings)
        with mesh:
            loss = nnx.jit(lambda model, inputs: token_loss(model, **model_inputs(inputs)))(model, next(iter(made)))
        losses.append(float(loss))
    assert losses[0] == pytest.approx(wanted, rel=1e-6) and losses[1] != pytest.approx(wanted, rel=1e-4)

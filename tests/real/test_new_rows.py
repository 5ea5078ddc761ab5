"""New rows of an embedding get the numbers that Alpaca's lines give them in torch; spare ones go as in transformers."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from porter.runtime import average_new_rows, check_vocabulary, resize_vocabulary, save_model
from porter.runtime.models.load_model import load_model

pytestmark = pytest.mark.real


@pytest.mark.parametrize("tied", [True, False])
def test_new_rows_are_torchs(tiny, tiny_mesh, tied: bool) -> None:
    folder = tiny("llama3", num_hidden_layers=1, tie_word_embeddings=tied)
    torch_model = AutoModelForCausalLM.from_pretrained(folder)
    size = torch_model.config.vocab_size - 4
    weights = [torch_model.get_input_embeddings().weight.data, torch_model.get_output_embeddings().weight.data]
    for weight in weights:
        weight[size - 2 : size] = weight[: size - 2].mean(dim=0, keepdim=True)
    model = load_model(folder, tiny_mesh(2, 4), dtype=jnp.float32)
    place = model.embedder.input_embedding.get_value().sharding
    average_new_rows(model, size, 2)
    ours = [model.embedder.input_embedding, *([] if tied else [model.lm_head.w])]
    assert ours[0].get_value().sharding.is_equivalent_to(place, 2)
    for theirs, held in zip(weights, ours, strict=False):
        value = np.asarray(held.get_value())
        np.testing.assert_allclose(value if value.shape == theirs.shape else value.T, theirs.numpy(), atol=1e-6)
    with pytest.raises(ValueError, match="can't grow"):
        average_new_rows(model, size + 5, 1)


@pytest.mark.parametrize(("tied", "multiple"), [(True, None), (False, None), (False, 64)])
def test_spare_rows_go_and_what_is_saved_is_transformers(tiny, tiny_mesh, tmp_path, tied: bool, multiple) -> None:
    folder = tiny("qwen2", num_hidden_layers=1, tie_word_embeddings=tied)
    torch_model = AutoModelForCausalLM.from_pretrained(folder).float()
    size = torch_model.config.vocab_size - 67
    torch_model.resize_token_embeddings(size, pad_to_multiple_of=multiple)
    model = load_model(folder, tiny_mesh(8, 1), dtype=jnp.float32)
    left = torch_model.config.vocab_size
    assert resize_vocabulary(model, size, pad_to_multiple_of=multiple) == left == check_vocabulary(model)
    ids = np.arange(3, 11)[None]
    ones = jnp.tril(jnp.ones((1, 8, 8), bool))
    logits, _ = model(jnp.asarray(ids), jnp.arange(8)[None], None, ones)
    theirs = torch_model(torch.tensor(ids)).logits.detach().numpy()
    np.testing.assert_allclose(np.asarray(logits), theirs, atol=2e-4)
    save_model(model, tmp_path / "saved")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved").float()
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["vocab_size"] == left
    for name, value in torch_model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), again.state_dict()[name].numpy())
    with pytest.raises(ValueError, match="can't grow"):
        resize_vocabulary(model, left + 1)


def test_rows_that_the_mesh_does_not_divide_stay(tiny, tiny_mesh, capsys) -> None:
    model = load_model(tiny("qwen2", num_hidden_layers=1), tiny_mesh(2, 4), dtype=jnp.float32)
    rows = check_vocabulary(model)
    assert resize_vocabulary(model, rows - 3) == rows == check_vocabulary(model)
    assert f"keeps its {rows} rows" in capsys.readouterr().out
    assert resize_vocabulary(model, rows - 8) == rows - 8

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
    with pytest.raises(ValueError, match="give it more"):
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
    if left % 8:
        return
    assert resize_vocabulary(model, left + 1) == left + 1  # and back
    assert resize_vocabulary(model, left) == left
    np.testing.assert_array_equal(np.asarray(model(jnp.asarray(ids), jnp.arange(8)[None], None, ones)[0]), logits)


def test_rows_that_the_mesh_does_not_divide_stay(tiny, tiny_mesh, capsys) -> None:
    model = load_model(tiny("qwen2", num_hidden_layers=1), tiny_mesh(2, 4), dtype=jnp.float32)
    rows = check_vocabulary(model)
    assert resize_vocabulary(model, rows - 3) == rows == check_vocabulary(model)
    assert f"keeps its {rows} rows" in capsys.readouterr().out
    assert resize_vocabulary(model, rows - 8) == rows - 8


@pytest.mark.parametrize(("family", "tied"), [("llama3", True), ("llama3", False), ("gemma2", True), ("gemma3", True)])
def test_new_rows_are_the_mean_as_in_transformers(tiny, tiny_mesh, tmp_path, family: str, tied: bool) -> None:
    settings = {} if family.startswith("gemma") else {"tie_word_embeddings": tied}
    folder = tiny(family, num_hidden_layers=1, **settings)
    torch_model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").float()
    model = load_model(folder, tiny_mesh(8, 1), dtype=jnp.float32)
    rows = check_vocabulary(model)
    torch_model.resize_token_embeddings(rows + 3)
    for weight in (torch_model.get_input_embeddings().weight.data, torch_model.get_output_embeddings().weight.data):
        mean = weight[:rows].mean(0)
        assert (weight[rows:] - mean).abs().max() < 2e-4 * weight[:rows].std() * 2
        weight[rows:] = mean
    assert resize_vocabulary(model, rows + 3) == rows + 3 == check_vocabulary(model)
    ids = np.array([[3, rows, 5, rows + 2, 7, 8, 9, rows + 1]])
    ones = jnp.tril(jnp.ones((1, 8, 8), bool))
    logits, _ = model(jnp.asarray(ids), jnp.arange(8)[None], None, ones)
    theirs = torch_model(torch.tensor(ids)).logits.detach().numpy()
    np.testing.assert_allclose(np.asarray(logits), theirs, atol=2e-4)
    save_model(model, tmp_path / "saved")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", attn_implementation="eager").float()
    assert again.config.vocab_size == rows + 3
    np.testing.assert_allclose(again(torch.tensor(ids)).logits.detach().numpy(), np.asarray(logits), atol=2e-4)


def test_new_rows_of_older_releases_are_drawn(tiny, tiny_mesh) -> None:
    model = load_model(tiny("llama3", num_hidden_layers=1, tie_word_embeddings=False), tiny_mesh(8, 1))
    rows = check_vocabulary(model)
    resize_vocabulary(model, rows + 64, mean_resizing=False)
    tables = [np.asarray(model.embedder.input_embedding.get_value())[rows:], np.asarray(model.lm_head.w.get_value()).T]
    new = [tables[0].astype(np.float32), tables[1][rows:].astype(np.float32)]
    assert [np.std(table) for table in new] == pytest.approx([0.1, 0.1], rel=0.1)  # the tiny model's initializer_range
    assert not np.array_equal(*new)


def test_rows_that_the_mesh_does_not_divide_are_refused(tiny, tiny_mesh) -> None:
    model = load_model(tiny("llama3", num_hidden_layers=1), tiny_mesh(2, 4), dtype=jnp.float32)
    rows = check_vocabulary(model)
    with pytest.raises(ValueError, match=f"{rows + 1} rows don't fit the mesh.*pad_to_multiple_of="):
        resize_vocabulary(model, rows + 1)
    assert resize_vocabulary(model, rows + 1, pad_to_multiple_of=8) == rows + 8

"""New rows of an embedding get the numbers that Alpaca's lines give them in torch."""

import jax.numpy as jnp
import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from porter.runtime import average_new_rows
from porter.runtime.models import load_model

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

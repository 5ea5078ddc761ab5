"""The rows that a vocabulary gets on both sides of a comparison."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from porter.validate.torch_side.new_rows import NOTE, average_new_rows


class Model(torch.nn.Module):
    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(4, 2), torch.nn.Linear(2, 4, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def get_input_embeddings(self) -> Any:
        return self.table

    def get_output_embeddings(self) -> Any:
        return self.head

    def resize_token_embeddings(self, size: int) -> Any:
        tied = self.head.weight is self.table.weight
        for layer in (self.table, self.head):
            layer.weight = torch.nn.Parameter(torch.cat([layer.weight, torch.randn(9, 2)])[:size])
        if tied:
            self.head.weight = self.table.weight
        return self.table


@pytest.mark.parametrize("tied", [True, False])
def test_new_rows_are_the_mean_in_torch(monkeypatch: pytest.MonkeyPatch, tied: bool) -> None:
    monkeypatch.setattr(Model, "resize_token_embeddings", Model.resize_token_embeddings)
    notes: list[str] = []
    average_new_rows(Model, notes.append)
    model = Model(tied=tied)
    assert model.resize_token_embeddings(3) is model.table and notes == []
    model.resize_token_embeddings(6)
    for weight in (model.table.weight, model.head.weight):
        torch.testing.assert_close(weight[3:], weight[:3].mean(0).expand(3, 2))
    assert set(notes) == {NOTE}


def test_and_in_the_port() -> None:
    from porter.runtime.models import vocabulary
    from porter.validate.jax_side.observe_runtime import average_new_rows as average

    copy = SimpleNamespace(new_rows=vocabulary.new_rows)
    average(copy)
    table = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    np.testing.assert_allclose(copy.new_rows(table, 0, 2, 0.02, 1), [[2, 3], [2, 3]])

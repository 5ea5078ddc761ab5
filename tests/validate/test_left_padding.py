"""What the padding in front of a row would predict."""

from __future__ import annotations

import pytest
import torch

from porter.validate.torch_side.left_padding import AVERAGED, Seeing, concerns, untrain_firsts

X = -100


@pytest.mark.parametrize(
    ("mask", "labels", "after"),
    [
        ([[0, 0, 1, 1]], [[X, X, 5, 6]], [[X, X, X, 6]]),
        ([[1, 1, 1, 0]], [[4, 5, 6, X]], [[4, 5, 6, X]]),
        ([[0, 1, 1, 1], [1, 1, 1, 1]], [[X, 5, 6, 7], [4, 5, 6, 7]], [[X, X, 6, 7], [4, 5, 6, 7]]),
        ([[1, 0, 1, 1]], [[4, X, 6, 7]], [[4, X, 6, 7]]),
        ([[0, 1, 1]], [[X, X, 6]], [[X, X, 6]]),
    ],
)
def test_only_the_first_token_behind_left_padding(
    mask: list[list[int]], labels: list[list[int]], after: object
) -> None:
    inputs = {"attention_mask": torch.tensor(mask), "labels": torch.tensor(labels)}
    assert untrain_firsts(inputs) == (labels != after)
    assert inputs["labels"].tolist() == after


def test_batches_of_another_kind_stay() -> None:
    assert not untrain_firsts({"chosen_input_ids": torch.ones(1, 2)})
    assert not untrain_firsts({"labels": torch.ones(2), "attention_mask": torch.ones(2, 3)})


def test_rows_of_a_trainer_that_samples_have_no_labels_yet() -> None:
    assert not untrain_firsts([{"prompt": "q"}])


def test_transformers_own_trainer_keeps_its_padding() -> None:
    class SFTTrainer: ...

    class Own(SFTTrainer): ...

    assert concerns(Own()) and concerns(SFTTrainer()) and not concerns(object())


@pytest.mark.parametrize(("kind", "averages"), [("llama", False), ("gemma3_text", True), ("gemma2", True)])
def test_what_padding_sees_in_older_releases(monkeypatch: pytest.MonkeyPatch, kind: str, averages: bool) -> None:
    """Positions without a token: all of their row, or the mean of its values with eager attention's gradient."""
    from types import SimpleNamespace

    functional = torch.nn.functional
    monkeypatch.setattr(functional, "scaled_dot_product_attention", functional.scaled_dot_product_attention)
    notes: list[str] = []
    seeing = Seeing(notes.append)
    seeing.loaded(SimpleNamespace(config=SimpleNamespace(model_type=kind)))
    torch.manual_seed(0)
    query = torch.randn(1, 4, 3, 8, requires_grad=True)
    key, value = torch.randn(1, 4, 3, 8), torch.randn(1, 4, 3, 8)
    smallest = torch.finfo(torch.float32).min
    mask = torch.tensor([[[[smallest, smallest, smallest], [0, 0, smallest], [0, 0, 0.0]]]])
    out = functional.scaled_dot_product_attention(query, key, value, mask)
    whole = (query @ key.transpose(-1, -2) / 8**0.5).softmax(-1) @ value
    torch.testing.assert_close(out[:, :, 0], value.mean(2) if averages else whole[:, :, 0])
    torch.testing.assert_close(out[:, :, 2], whole[:, :, 2])
    assert notes == ([AVERAGED] if averages else [])
    (gradient,) = torch.autograd.grad(out[:, :, 0].square().sum(), query)
    assert 0 < float(gradient.norm()) < 10

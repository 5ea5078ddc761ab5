"""What the padding in front of a row would predict."""

from __future__ import annotations

import pytest
import torch

from porter.validate.torch_side.left_padding import (
    OF_CPU,
    OF_GEMMA,
    Seeing,
    concerns,
    trains_on_cpu,
    untrain_firsts,
)

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


@pytest.mark.parametrize(
    ("text", "on_cpu"),
    [
        ("a = TrainingArguments(out, no_cuda=True)", True),
        ("a = TrainingArguments(out, use_cpu=True)", True),
        ("a = TrainingArguments(out, no_cuda=flags.cpu)", False),
        ("import os\nos.environ['CUDA_VISIBLE_DEVICES'] = ''", True),
        ('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"', False),
        ("import os\nif small:\n    os.environ['CUDA_VISIBLE_DEVICES'] = ''", False),
        ("m = AutoModelForCausalLM.from_pretrained(name, device_map='cpu')", True),
        ("m = AutoModelForCausalLM.from_pretrained(name, device_map='cpu').to('cuda')", False),
        ("a = TrainingArguments(out", False),
    ],
)
def test_scripts_that_train_on_the_cpu_whatever_the_machine_has(text: str, on_cpu: bool) -> None:
    assert trains_on_cpu(text) is on_cpu


@pytest.mark.parametrize(
    ("kind", "on_cpu", "note"),
    [("llama", False, ""), ("llama", True, OF_CPU), ("gemma3_text", False, OF_GEMMA), ("gemma2", False, OF_GEMMA)],
)
def test_what_padding_sees_in_older_releases(
    monkeypatch: pytest.MonkeyPatch, kind: str, on_cpu: bool, note: str
) -> None:
    """Positions without a token: all of their row, or the mean of its values with eager attention's gradient."""
    from types import SimpleNamespace

    functional = torch.nn.functional
    monkeypatch.setattr(functional, "scaled_dot_product_attention", functional.scaled_dot_product_attention)
    notes: list[str] = []
    seeing = Seeing(notes.append, on_cpu=on_cpu)
    seeing.loaded(SimpleNamespace(config=SimpleNamespace(model_type=kind)))
    torch.manual_seed(0)
    query = torch.randn(1, 4, 3, 8, requires_grad=True)
    key, value = torch.randn(1, 4, 3, 8), torch.randn(1, 4, 3, 8)
    smallest = torch.finfo(torch.float32).min
    mask = torch.tensor([[[[smallest, smallest, smallest], [0, 0, smallest], [0, 0, 0.0]]]])
    out = functional.scaled_dot_product_attention(query, key, value, mask)
    whole = (query @ key.transpose(-1, -2) / 8**0.5).softmax(-1) @ value
    torch.testing.assert_close(out[:, :, 0], value.mean(2) if note else whole[:, :, 0])
    torch.testing.assert_close(out[:, :, 2], whole[:, :, 2])
    assert notes == ([note] if note else [])
    (gradient,) = torch.autograd.grad(out[:, :, 0].square().sum(), query)
    assert 0 < float(gradient.norm()) < 10

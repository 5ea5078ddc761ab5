"""A loop that calls the model without labels: those of its own cross-entropy are the micro-batch's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def test_the_targets_of_the_loss_are_the_labels() -> None:
    from porter.validate.torch_side.observe_loops import Watch

    seen: list[Any] = []
    observer: Any = SimpleNamespace(done=False, batch=seen.append, row_loss=lambda *given: None)
    watch = Watch(observer)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.LlamaConfig(vocab_size=16, num_key_value_heads=1, **sizes)
    model = transformers.LlamaForCausalLM(config)
    ids = torch.tensor([[3, 4, 9], [5, 9, 9]])
    watch.forward(model.model, (), {"input_ids": ids}, None)  # within the one that has the loss
    watch.crossed(ids[:, 1:].reshape(-1), 9)
    assert not seen
    watch.forward(model, (), {"input_ids": ids}, model(input_ids=ids))
    watch.crossed(torch.zeros(3), -100)  # of something else
    assert not seen
    watch.crossed(ids[:, 1:].reshape(-1), 9)
    (batch,) = seen
    assert batch["labels"].tolist() == [[-100, 4, -100], [-100, -100, -100]]
    assert watch.model is model and watch.micro == 1
    watch.crossed(ids[:, 1:].reshape(-1), 9)  # again, without another forward pass
    assert len(seen) == 1


def test_a_base_that_peft_calls_past_its_hooks_is_seen_by_the_adapters_around_it() -> None:
    """`self.model.forward(...)` of PEFT before 0.16; later ones call the model, whose own pass is told before."""
    from porter.validate.torch_side.observe_loops import Watch

    class Adapters(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model, self.peft_config = model, {"default": None}

    seen: list[Any] = []
    watch = Watch(SimpleNamespace(done=False, batch=seen.append, row_loss=lambda *given: None))  # type: ignore[arg-type]
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=16, num_key_value_heads=1, **sizes))
    inner, ids = Adapters(model), torch.tensor([[3, 4, 9]])
    outer = Adapters(inner)
    given = {"input_ids": ids, "labels": ids}
    for passes in ((inner, outer), (model, inner, outer)):
        outputs = model(**given)
        for module in passes:
            watch.forward(module, (), given, outputs)
        assert watch.model is outer
    assert len(seen) == watch.micro == 2

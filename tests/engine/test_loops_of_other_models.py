"""Training loops written by hand whose model Tunix hasn't: that is said, and of another task nothing else."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import (
    AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, GPT2LMHeadModel, T5ForConditionalGeneration,
    WhisperForConditionalGeneration, default_data_collator,
)


class Mine(nn.Module):
    pass


{model}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = DataLoader(rows, batch_size=4, collate_fn=default_data_collator)
for batch in loader:
    ids = batch["input_ids"]{change}
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def said(model: str, change: str = "") -> tuple[Port, list[str]]:
    ported = port(SCRIPT.format(model=model, change=change))
    return ported, [finding.message for finding in ported.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("AutoModelForSequenceClassification", "write the answer as text"),
        ("T5ForConditionalGeneration", "each input with its answer behind it"),
        ("WhisperForConditionalGeneration", "no model that hears"),
    ],
)
def test_another_task_is_all_that_is_said(name: str, advice: str) -> None:
    load = f'model = {name}.from_pretrained("some/model").to("cuda")'
    ported, messages = said(load, "\n    batch['input_ids'] = ids")
    assert ported.status == "unsupported"
    assert messages == [f"{name}: Tunix has no implementation of this kind of model."]
    assert advice in ported.findings[0].fix


@pytest.mark.parametrize("load", ['AutoModelForCausalLM.from_pretrained("gpt2")', "GPT2LMHeadModel.from_pretrained(m)"])
def test_another_family_is_said_with_the_loops_own_obstacles(load: str) -> None:
    ported, messages = said(f"model = {load}", "\n    batch['input_ids'] = ids")
    assert ported.status == "unsupported"
    assert any("no implementation of this model family" in message for message in messages)
    assert any("changed between the batch and the step" in message for message in messages)
    assert not any("not loaded" in message for message in messages)
    _, alone = said(f"model = {load}")
    assert len(alone) == 1 and "model family" in alone[0]


def test_a_class_of_the_file_is_no_model_of_tunixs() -> None:
    ported, messages = said("model = Mine()")
    assert ported.status == "unsupported"
    assert messages == [
        "This training loop is not the standard one: its model is `Mine`, a class of this file, and Tunix trains "
        "models of its own."
    ]


def test_a_model_from_scratch_is_saved_first() -> None:
    made = 'model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("Qwen/Qwen3-0.6B"))'
    ported, messages = said(made)
    assert len(messages) == 1 and "starts from scratch" in messages[0]
    assert "save_pretrained" in ported.findings[0].fix


def test_several_loops_of_another_task() -> None:
    text = SCRIPT.format(model='model = T5ForConditionalGeneration.from_pretrained("t5-small")', change="")
    loop = text[text.index("for batch") :]
    errors = [finding.message for finding in port(text + loop).findings if finding.severity == "error"]
    assert errors == ["T5ForConditionalGeneration: Tunix has no implementation of this kind of model."]


@pytest.mark.parametrize("base", ["Trainer", "SFTTrainer"])
def test_a_trainer_with_a_loss_of_its_own_is_refused_for_what_it_trains(base: str) -> None:
    text = f"""from transformers import AutoModelForSequenceClassification, Trainer
from trl import SFTTrainer


class Mine({base}):
    def compute_loss(self, model, inputs, return_outputs=False):
        return weighted(model(**inputs).logits, inputs["labels"])


model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen3-0.6B", num_labels=2)
Mine(model=model, train_dataset=rows).train()
"""
    [error] = [finding for finding in port(text).findings if finding.severity == "error"]
    assert error.message.startswith("AutoModelForSequenceClassification: ")
    language = text.replace("AutoModelForSequenceClassification", "AutoModelForCausalLM").replace(", num_labels=2", "")
    [error] = [finding for finding in port(language).findings if finding.severity == "error"]
    assert "a loss of its own" in error.message

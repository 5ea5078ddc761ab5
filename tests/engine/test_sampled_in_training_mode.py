"""Samples right behind the training, with the dropout of adapters on the GPU and without in the port."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

IMPORTS = "from peft import LoraConfig, get_peft_model\nfrom transformers import pipeline"
ADAPTED = """\
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj"], lora_dropout={dropout}))"""
PIPE = "pipe = pipeline('text-generation', model=model, tokenizer=tokenizer)"
SAMPLE = "print(model.generate(**tokenizer('a', return_tensors='pt')))"


@pytest.mark.parametrize(
    ("dropout", "after", "config", "says"),
    [
        ("0.1", SAMPLE, "", True),
        ("0.1", f"trainer.save_model('out')\n{SAMPLE}\n{SAMPLE}", "", True),
        ("0.0", SAMPLE, "", False),
        ("0.1", f"model.eval()\n{SAMPLE}", "", False),
        ("0.1", f"trainer.evaluate()\n{SAMPLE}", "", False),
        ("0.1", f"model = model.merge_and_unload()\n{SAMPLE}", "", False),
        ("0.1", SAMPLE, ", eval_strategy='epoch'", False),
        ("0.1", f"{PIPE}\nprint(pipe('a'))\n{SAMPLE}", "", True),
        ("0.1", f"print({PIPE[7:].replace('=model', '=trainer.model')}('a'))", "", True),
        ("0.1", f"{PIPE}\nmodel.eval()\nprint(pipe('a'))", "", False),
        ("0.0", f"{PIPE}\nprint(pipe('a'))", "", False),
        ("0.1", PIPE, "", False),
    ],
)
def test_dropout_while_sampling_is_said_once(dropout: str, after: str, config: str, says: bool) -> None:
    data = ', eval_dataset=load_dataset("some/rows", split="test")' if config else ""
    text = sft_script(
        imports=IMPORTS,
        between=ADAPTED.format(dropout=dropout),
        config=f", gradient_checkpointing=False{config}",
        trainer=data,
        after=f"trainer.train()\n{after}",
    )
    found = port(text)
    assert sum("in training mode" in finding.message for finding in found.findings) == says, found.findings
    before = sft_script(imports=IMPORTS, between=f"{ADAPTED.format(dropout=dropout)}\n{SAMPLE}")
    assert not any("in training mode" in finding.message for finding in port(before).findings)


def test_a_pipeline_that_was_made_before_generates_behind() -> None:
    adapted = f"{ADAPTED.format(dropout='0.1')}\n{PIPE}"
    for early, after, says in (("", "print(pipe('a'))", True), ("\nprint(pipe('a'))", "", False)):
        text = sft_script(imports=IMPORTS, between=adapted + early, after=f"trainer.train()\n{after}")
        said = [finding.message for finding in port(text).findings if "in training mode" in finding.message]
        assert [message.startswith("pipeline: ") for message in said] == [True] * says


HELPER = "def sample({parameter}):\n    {first}print(model.generate(**tokenizer('a', return_tensors='pt')))\n\n\n"


@pytest.mark.parametrize(
    ("helper", "early", "after", "says"),
    [
        (HELPER.format(parameter="", first=""), "", "sample()", True),
        (HELPER.format(parameter="", first=""), "\nsample()", "sample()", True),
        (HELPER.format(parameter="model", first=""), "", "sample(model)", True),
        (HELPER.format(parameter="", first=""), "\nsample()", "", False),
        (HELPER.format(parameter="", first="model.eval()\n    "), "", "sample()", False),
        (HELPER.format(parameter="", first=""), "", "model.eval()\nsample()", False),
        (f"{HELPER.format(parameter='', first='')}def twice():\n    sample()\n    sample()\n\n\n", "", "twice()", True),
    ],
)
def test_a_helper_above_the_trainer_generates_where_it_is_called(
    helper: str, early: str, after: str, says: bool
) -> None:
    adapted = f"{ADAPTED.format(dropout='0.1')}\n{helper}{early}"
    text = sft_script(imports=IMPORTS, between=adapted, after=f"trainer.train()\n{after}")
    assert sum("in training mode" in finding.message for finding in port(text).findings) == says


FORGETS = "each token from the one before it alone"


@pytest.mark.parametrize(
    ("dropout", "after", "checkpoints", "pin", "says"),
    [
        ("0.0", SAMPLE, True, "4.57.6", f"{FORGETS}: with gradient checkpointing on, transformers 4.57.6"),
        ("0.1", f"{PIPE}\nprint(pipe('a'))", True, "4.53.0", f"{FORGETS} and with its adapters' dropout"),
        ("0.1", f"{PIPE}\nprint(pipe('a'))", False, "4.53.0", "generates with its adapters' dropout; the port"),
        ("0.0", f"{PIPE}\nprint(pipe('a'))", False, "4.57.6", ""),
        ("0.0", SAMPLE, True, "4.52.4", ""),  # its generate feeds the whole text again
        ("0.0", f"model.eval()\n{SAMPLE}", True, "4.57.6", ""),
        ("0.0", f"model.gradient_checkpointing_disable()\n{SAMPLE}", True, "4.57.6", ""),
        ("0.0", SAMPLE.replace("='pt')", "='pt'), use_cache=False"), True, "4.57.6", ""),
    ],
)
def test_a_cache_that_checkpointing_drops_is_said(
    dropout: str, after: str, checkpoints: bool, pin: str, says: str
) -> None:
    """Tiny models of Llama and Qwen2: 4.41 to 4.52 generate as in evaluation, 4.53 to 5.12 don't."""
    text = sft_script(
        imports=f"{IMPORTS}  # pip install transformers=={pin}",
        between=ADAPTED.format(dropout=dropout),
        config=f", gradient_checkpointing={checkpoints}",
        after=f"trainer.train()\n{after}",
    )
    found = port(text.replace(", dtype=", ", torch_dtype=")).findings  # as the older releases had it
    said = [each for each in found if "in training mode" in each.message]
    assert len(said) == bool(says) and all(says in each.message for each in said), found

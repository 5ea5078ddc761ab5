"""What scripts ask of a model, set on it or count of it beside the training, which changes nothing of that."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port, sft_script

SETS = "model.generation_config.max_length = None\n"
SET = "rt.generation_config(model).max_length = None\n"
SAMPLES = "trainer.train()\nprint(model.generate(**inputs))"


@pytest.mark.parametrize(
    ("guard", "answer"),
    [
        ('if getattr(model, "generation_config", None) is not None:\n    ', ""),
        ('if getattr(model, "generation_config", None):\n    ', ""),
        ("if hasattr(model, 'generation_config'):\n    ", ""),
        ("if hasattr(model, 'generation_config') and verbose:\n    ", "if verbose:\n    "),
        ("if verbose or getattr(model, 'generation_config', None) is None:\n    ", "if verbose:\n    "),
    ],
)
def test_whether_a_model_has_a_generation_config(guard: str, answer: str) -> None:
    """Tunix's model has it elsewhere: the guard was no longer true, and the setting was lost without a word."""
    text = sft_script("verbose = True\n", between=guard + SETS, after=SAMPLES)
    check_becomes(text, f"\n{answer}{SET}", gone=("getattr", "hasattr"))


def test_a_generation_config_that_gets_a_name() -> None:
    between = "held = getattr(model, 'generation_config', None)\nheld.max_length = None\n"
    text = sft_script(between=between, after=SAMPLES)
    check_becomes(text, "held = rt.generation_config(model)\nheld.max_length = None\n")


def test_another_attribute_is_asked_of_the_model_itself() -> None:
    found = port(sft_script(between="if getattr(model, 'is_loaded_in_4bit', False):\n    print('4 bits')\n"))
    assert "getattr(model, 'is_loaded_in_4bit', False)" in found.after
    assert found.status == "partial"


RESIZED = "model.resize_token_embeddings({size})\n"


def test_a_size_that_the_resize_has_set() -> None:
    between = RESIZED.format(size="len(words)") + "model.config.vocab_size = len(words)\n"
    check_becomes(sft_script("words = []\n", between=between), "rt.resize_vocabulary(", gone=("vocab_size",))


@pytest.mark.parametrize(
    "between",
    [
        "model.config.vocab_size = len(words)\n",
        "model.config.vocab_size = len(words)\n" + RESIZED.format(size="len(words)"),
        RESIZED.format(size="len(words) + 1") + "model.config.vocab_size = len(words)\n",
        RESIZED.format(size="len(words), pad_to_multiple_of=64") + "model.config.vocab_size = len(words)\n",
    ],
)
def test_another_size_is_left_to_a_person(between: str) -> None:
    found = port(sft_script("words = []\n", between=between))
    assert "model.config.vocab_size = len(words)" in found.after
    assert [each.rule for each in found.findings if each.severity == "error"] == ["TP190"]


@pytest.mark.parametrize(
    "test", ["'lora' in name", '"lora_" in name', "'lora' in name.lower()", "p.requires_grad and 'lora_' in name"]
)
def test_the_adapters_by_their_names(test: str) -> None:
    between = f"n = sum(p.numel() for name, p in model.named_parameters() if {test})\nprint(n)\n"
    if " and " in test:
        assert "model.named_parameters()" in port(sft_script(between=between)).after
        between = between.replace(" and ", " if ")
    check_becomes(sft_script(between=between), "n = rt.count_parameters(model, lora=True)\n", gone=("numel",))


@pytest.mark.parametrize("test", ["'norm' in name", "'lora' not in name", "'lora_A' in name", "'lora' in names"])
def test_other_parameters_by_their_names(test: str) -> None:
    between = f"print(sum(p.numel() for name, p in model.named_parameters() if {test}))\n"
    assert "model.named_parameters()" in port(sft_script("names = []\n", between=between)).after


PLACES = """\
for name, p in model.named_parameters():
    if p.requires_grad:
        if p.device.type != "mps" and torch.backends.mps.is_available():
            print(f"{name} is not on MPS")
"""


def test_a_loop_that_tells_of_devices_goes() -> None:
    found = port(sft_script(imports="import torch", between=PLACES))
    assert found.status == "ported"
    assert "named_parameters" not in found.after and "torch" not in found.after


@pytest.mark.parametrize("library", ["torchinfo", "torchsummary"])
def test_a_summary_of_torchs_layers_goes(library: str) -> None:
    text = sft_script(imports=f"from {library} import summary", between="summary(model, (1, 512))\n")
    found = port(text)
    assert found.status == "ported" and "summary" not in found.after
    assert any("summary only prints torch's layers" in each.message for each in found.findings)
    assert "summary" not in port(text.replace("summary(model, (1, 512))", "print(summary(model, (1, 512)))")).after
    kept = port(text.replace("summary(model,", "said = summary(model,"))
    assert kept.status == "partial" and "said = summary(model" in kept.after


def test_a_try_whose_only_line_goes_is_gone() -> None:
    """Nothing is left that its handler could catch."""
    guarded = "try:\n    trainer.model.gradient_checkpointing_enable()\nexcept Exception:\n    print('none')"
    found = port(sft_script(after=f"{guarded}\ntrainer.train()"))
    assert "try:" not in found.after and "except" not in found.after

"""What the data says of the releases, against what is known of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.releases.history import LIBRARIES, History
from porter.releases.record import HERE
from porter.releases.uses import uses_of

KNOWN = History()


def test_names_come_and_go() -> None:
    assert not KNOWN.has("trl", "0.8.6", "trl.SFTConfig")
    assert KNOWN.has("trl", "0.9.2", "trl.SFTConfig")
    assert KNOWN.has("trl", "0.25.1", "trl.setup_chat_format")
    assert not KNOWN.has("trl", "0.26.0", "trl.setup_chat_format")
    assert KNOWN.has("peft", "0.9.0", "peft.prepare_model_for_int8_training")
    assert not KNOWN.has("peft", "0.10.0", "peft.prepare_model_for_int8_training")
    assert KNOWN.has("trl", "0.12.2", "trl.commands.cli_utils.TrlParser")
    assert not KNOWN.has("trl", "0.13.0", "trl.commands.cli_utils.TrlParser")


def test_names_of_modules_and_of_lazy_packages() -> None:
    assert KNOWN.has("transformers", "4.31.0", "transformers.AutoModelForCausalLM")
    assert KNOWN.has("transformers", "5.12.0", "transformers.LlamaForCausalLM")
    assert KNOWN.has("transformers", "4.40.2", "transformers.models.llama.modeling_llama.LlamaDecoderLayer")
    assert KNOWN.has("trl", "0.15.2", "trl.trainer.utils.DataCollatorForCompletionOnlyLM")
    assert not KNOWN.has("trl", "0.20.0", "trl.trainer.utils.DataCollatorForCompletionOnlyLM")
    assert KNOWN.has("accelerate", "0.25.0", "accelerate.utils.set_seed")


def test_keywords_of_a_trainer() -> None:
    for version, takes in (("0.7.0", True), ("0.12.2", True), ("0.13.0", False), ("1.16.0", False)):
        assert KNOWN.takes("trl", version, "SFTTrainer", "max_seq_length") is takes
    assert KNOWN.takes("trl", "0.15.2", "trl.SFTTrainer", "tokenizer")  # a decorator translates it
    assert not KNOWN.takes("trl", "0.16.0", "trl.SFTTrainer", "tokenizer")
    assert not KNOWN.takes("transformers", "5.0.0", "transformers.Trainer", "tokenizer")


def test_a_keyword_that_went_and_came_back() -> None:
    """SFTConfig(max_seq_length=) was renamed in 0.16 and kept as an alias until 0.19."""
    taking = [
        release for release in KNOWN.releases("trl") if KNOWN.takes("trl", release, "SFTConfig", "max_seq_length")
    ]
    assert taking[-1] == "0.19.1"
    assert KNOWN.default("trl", "0.15.2", "SFTConfig", "max_seq_length") == "1024"
    assert KNOWN.default("trl", "0.9.6", "SFTConfig", "max_seq_length") == "None"


def test_inherited_keywords_are_those_of_the_other_librarys_release() -> None:
    given = ("trl", "0.16.1", "SFTConfig", "evaluation_strategy")
    assert KNOWN.takes(*given, transformers="4.50.3")
    assert not KNOWN.takes(*given, transformers="4.51.0")
    assert KNOWN.default("trl", "0.9.6", "SFTConfig", "logging_steps", transformers="4.41.0") == "500"
    assert KNOWN.default("trl", "0.19.1", "SFTConfig", "logging_steps") == "10"
    assert KNOWN.default("trl", "1.16.0", "SFTConfig", "logging_steps") == "10"  # of a base in TRL


def test_a_keyword_that_nobody_has() -> None:
    assert not KNOWN.takes("trl", "1.16.0", "SFTConfig", "nonsense")
    assert KNOWN.takes("transformers", "4.44.0", "AutoModelForCausalLM.from_pretrained", "anything")  # **kwargs
    assert KNOWN.takes("trl", "1.16.0", "NotRecorded", "anything")


def test_attributes() -> None:
    assert KNOWN.attribute("trl", "0.26.2", "ModelConfig", "torch_dtype")
    assert not KNOWN.attribute("trl", "0.27.0", "ModelConfig", "torch_dtype")
    assert KNOWN.attribute("transformers", "4.44.0", "TrainingArguments", "overwrite_output_dir")
    assert not KNOWN.attribute("transformers", "5.0.0", "TrainingArguments", "overwrite_output_dir")
    assert KNOWN.attribute("trl", "0.19.1", "SFTTrainer", "get_train_dataloader")


def test_a_deprecated_keyword_that_does_nothing() -> None:
    claim = KNOWN.taken("trl", "GRPOConfig", "max_prompt_length")
    releases = KNOWN.releases("trl")
    idle = [release for place, release in enumerate(releases) if claim.idle >> place & 1]
    assert idle == ["0.26.0", "0.26.1", "0.26.2", "0.27.0", "0.27.1", "0.27.2"]
    assert not KNOWN.taken("trl", "SFTConfig", "max_seq_length").idle  # becomes max_length


def test_fitting_and_contradictions() -> None:
    uses = uses_of("from trl import SFTConfig, SFTTrainer\nSFTTrainer(args=SFTConfig(max_seq_length=1), tokenizer=t)\n")
    fitting = KNOWN.fitting("trl", uses)
    assert (fitting[0], fitting[-1]) == ("0.9.2", "0.15.2")
    (claim,) = KNOWN.contradictions({"trl": "0.19.1"}, uses)["trl"]
    assert (claim.text, claim.line) == ("trl.SFTTrainer(tokenizer=)", 2)
    assert KNOWN.when(claim, "0.19.1") == "gone in 0.16.0"


def test_requirements_and_dates() -> None:
    assert "transformers <4.47.0" in KNOWN.requires("trl", "0.12.2")
    assert KNOWN.date("trl", "0.8.6").isoformat() == "2024-04-22"


def test_an_unknown_library() -> None:
    with pytest.raises(KeyError, match="no history of torch"):
        KNOWN.releases("torch")


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_data_is_small_and_whole(library: str) -> None:
    path = Path(HERE) / f"{library}.json"
    data = json.loads(path.read_text("utf-8"))
    assert path.stat().st_size < 800_000
    assert len(data["releases"]) == len(data["dates"]) == len(set(data["releases"]))
    first, last = {
        "trl": ("0.7.0", "1.16.0"),
        "transformers": ("4.31.0", "5.12.1"),
        "peft": ("0.5.0", "0.21.2"),
        "accelerate": ("0.20.0", "1.15.0"),
    }[library]
    assert (data["releases"][0], data["releases"][-1]) == (first, last)

"""Keywords of the trainer's call that Unsloth loses beside the arguments."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port

GIVEN_BESIDE = """# {install}
from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

rows = load_dataset("x", split="train")
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length={of_model})
trainer = SFTTrainer(model, args={config}, train_dataset=rows, tokenizer=tokenizer{given})
trainer.train()
"""
PLAIN, OWN = 'TrainingArguments("out")', 'SFTConfig("out")'
GIVEN = ', packing=True, max_seq_length=512, dataset_text_field="text"'


def given_beside(config: str, install: str = "", given: str = GIVEN, of_model: int = 2048) -> Port:
    return port(GIVEN_BESIDE.format(config=config, install=install, given=given, of_model=of_model))


def said_lost(found: Port) -> list[str]:
    return [each.severity for each in found.findings if each.rule == "TP704"]


@pytest.mark.parametrize(
    ("config", "release", "written", "says"),
    [
        (PLAIN, "2025.5.7", ("packing=True,", "max_length=512,"), []),
        (PLAIN, "2025.5.8", ("max_length=1024,  # as Unsloth loses the trainer's",), ["warning"]),
        (PLAIN, "2026.8.19", ("max_length=1024,  # as Unsloth loses the trainer's",), ["warning"]),
        (PLAIN, "2026.10.8", ("packing=True,", "max_length=512,"), []),
        (OWN, "2026.6.8", ("max_length=2048,  # the model's max_seq_length",), ["warning"]),
        (OWN, "2026.8.19", ("packing=True,", "max_length=512,"), []),
    ],
)
def test_what_unsloth_loses_beside_the_arguments_has_no_effect(
    config: str, release: str, written: tuple[str, ...], says: list[str]
) -> None:
    found = given_beside(config, f"pip install unsloth=={release}")
    assert all(line in found.after for line in written) and said_lost(found) == says
    assert ("packing=True" in found.after) == ("packing=True," in written)
    lost = [row.fate for row in found.fields if row.source in ("SFTTrainer.packing", "SFTTrainer.max_seq_length")]
    assert lost == (["dropped", "dropped"] if says else ["exact", "exact"])


def test_a_config_that_says_it_too_is_acted_on() -> None:
    found = given_beside('SFTConfig("out", packing=True)', "pip install unsloth==2026.6.8", ", packing=True", 512)
    assert "packing=True," in found.after and said_lost(found) == []


def test_where_nothing_names_the_release_the_port_does_what_is_written_and_says_so() -> None:
    found = given_beside(PLAIN)
    assert "packing=True," in found.after and "max_length=512," in found.after and said_lost(found) == ["warning"]
    assert said_lost(given_beside(PLAIN, given="")) == ["warning"]  # the model's 2048, for which TRL cuts at 1024
    assert said_lost(given_beside(PLAIN, given=", packing=False, max_seq_length=1024")) == []
    reduced = ", packing=False, max_seq_length=2048"  # to the model's, at which TRL cuts anyway
    assert said_lost(given_beside(PLAIN, given=reduced, of_model=1024)) == []
    assert said_lost(given_beside(PLAIN, given=reduced, of_model=512)) == ["warning"]
    assert said_lost(given_beside(OWN)) == []
    kept = GIVEN_BESIDE.replace("trainer = ", 'args = TrainingArguments("out")\nprint(args)\ntrainer = ')
    found = port(kept.format(config="args", install="pip install unsloth==2026.6.8", given=GIVEN, of_model=2048))
    assert "packing=True" in found.after and said_lost(found) == ["warning"]


def refused(found: Port) -> bool:
    return any("preprocessing_num_workers is not a keyword" in each.message for each in found.findings)


@pytest.mark.parametrize("install", ["", "pip install unsloth==2025.5.8"])
def test_what_neither_the_trainer_nor_its_config_has_is_lost_in_every_release_that_runs(install: str) -> None:
    found = given_beside(OWN, install, ", preprocessing_num_workers=4, packing=False")
    assert not refused(found) and said_lost(found) == ["warning"]
    assert [row.fate for row in found.fields if row.source.endswith("preprocessing_num_workers")] == ["dropped"]


def test_what_neither_has_ends_the_run_where_unsloth_makes_a_config_of_it_and_of_trls_own_trainer() -> None:
    given = ", preprocessing_num_workers=4, packing=False"
    assert refused(given_beside(OWN, "pip install unsloth==2025.5.7", given))
    trls = GIVEN_BESIDE.replace("from unsloth import FastLanguageModel\n", "").replace(
        "rows =", "from unsloth import FastLanguageModel\nrows ="
    )
    assert refused(port(trls.format(config=OWN, install="", given=given, of_model=512)))


GRPO = """from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

rows = load_dataset("x", split="train")
model, words = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, r=8)
trainer = GRPOTrainer(
    model, args=GRPOConfig("out"), train_dataset=rows, reward_funcs=lambda completions, **kwargs: [0.0], tokenizer=words
)
trainer.train()
"""


def test_a_tokenizer_is_the_processing_class_of_unsloths_trainers_alone() -> None:
    found = port(GRPO)
    assert found.status == "ported" and [row.fate for row in found.fields if "tokenizer" in row.source] == ["exact"]
    trls = "from trl import GRPOConfig, GRPOTrainer\n"
    assert port(trls + GRPO.replace(trls, "")).status == "partial"


def test_a_collator_of_the_trainer_s_own_is_not_lost() -> None:
    """Every SFTTrainer takes one: what was found of it first is another thing."""
    collator = "DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False)"
    ported = given_beside(PLAIN, given=f", data_collator={collator}")
    imported = "from transformers import DataCollatorForLanguageModeling, TrainingArguments"
    ported = port(ported.before.replace("from transformers import TrainingArguments", imported))
    assert "label_mask=rt.IgnorePadding(" in ported.after
    assert not any("SFTTrainer.data_collator" in finding.message for finding in ported.findings)

"""Collators that an SFTTrainer is given."""

import pytest

from .porting import port

SCRIPT = """from datasets import load_dataset
from transformers import AutoTokenizer, DataCollatorForLanguageModeling
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
{before}trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig("out"{arguments}),
    train_dataset=load_dataset("x", split="train"),
    processing_class=tokenizer,
    data_collator={collator},
)
trainer.train()
"""
MADE = "DataCollatorForLanguageModeling(tokenizer, mlm=False)"


@pytest.mark.parametrize(
    ("before", "collator", "written"),
    [
        ("", MADE, "label_mask=rt.IgnorePadding(tokenizer, mlm=False),"),
        (f"collator = {MADE}\n", "collator", "collator = rt.IgnorePadding(tokenizer, mlm=False)\n"),
    ],
)
def test_transformers_collator_masks_padding_alone(before: str, collator: str, written: str) -> None:
    found = port(SCRIPT.format(before=before, collator=collator, arguments=""))
    assert found.status == "ported" and written in found.after and "DataCollator" not in found.after
    assert f"label_mask={'collator' if before else 'rt.IgnorePadding'}" in found.after


@pytest.mark.parametrize("before", ["", f"collator = {MADE}\n"])
def test_a_mask_has_the_runtimes_name_where_the_file_has_an_rt(before: str) -> None:
    """It was `rt.IgnorePadding`, of the file's own `rt`."""
    collator = "collator" if before else MADE
    found = port(SCRIPT.format(before=f"rt = 3\nprint(rt)\n{before}", collator=collator, arguments=""))
    assert "tpu_rt.IgnorePadding(" in found.after and " rt." not in found.after and "as rt\n" not in found.after


@pytest.mark.parametrize(
    ("collator", "arguments"),
    [
        ("DataCollatorForLanguageModeling(tokenizer)", ""),
        ("DataCollatorForLanguageModeling(tokenizer, mlm=False, seed=3)", ""),
        (MADE, ", packing=True"),
        (MADE, ", assistant_only_loss=True"),
    ],
)
def test_what_it_changes_besides_is_left_to_a_person(collator: str, arguments: str) -> None:
    found = port(SCRIPT.format(before="", collator=collator, arguments=arguments))
    assert found.status == "partial" and "IgnorePadding" not in found.after


OLD = """from datasets import load_dataset
from transformers import AutoTokenizer, DataCollatorForLanguageModeling, HfArgumentParser, TrainingArguments
from trl import SFTTrainer

{arguments}
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=args,
    train_dataset=load_dataset("x", split="train"),
    dataset_text_field="text",
    data_collator=DataCollatorForLanguageModeling({of}, mlm=False),{more}
)
trainer.train()
"""
PLAIN = 'args = TrainingArguments("out")'
PARSED = "args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()"


@pytest.mark.parametrize("arguments", [PLAIN, PARSED])
@pytest.mark.parametrize(
    ("of", "more", "masks"),
    [
        ("tokenizer", "", True),  # the trainer loads a tokenizer of its own, whose end token pads
        ("tokenizer=tokenizer", " packing=True, tokenizer=tokenizer,", True),  # packed rows are masked by it alone
        ("tokenizer", " tokenizer=other,", True),
        ("tokenizer", " tokenizer=tokenizer,", False),
        ("tokenizer=tokenizer", " tokenizer=tokenizer,", False),
    ],
)
def test_a_collator_that_older_releases_make_has_the_trainers_tokenizer(
    arguments: str, of: str, more: str, masks: bool
) -> None:
    found = port(OLD.format(arguments=arguments, of=of, more=more), source_trl="0.8.6")
    assert (f"label_mask=rt.IgnorePadding({of}, mlm=False)," in found.after) == masks
    assert "DataCollator" not in found.after

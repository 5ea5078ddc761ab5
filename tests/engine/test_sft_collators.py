"""Collators of transformers that an SFTTrainer is given: what each release's rows make of them."""

import pytest

from .porting import port, sft_script

IMPORT = "from transformers import DataCollatorForLanguageModeling, DataCollatorForSeq2Seq, DataCollatorWithPadding\n"
IMPORT += "from transformers import AutoTokenizer, default_data_collator"
TOKENIZER = 'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")'
MADE = "DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=-100)"
LABELLED = 'print("labels")'
OWN, PADDING, NONE = "label_mask=rt.OwnLabels()", "label_mask=rt.IgnorePadding(tokenizer, mlm=False)", ""
REFUSED, NO_LOSS = "takes no collator beside rows that are run together", "the model returns no loss"


def ported(collator: str, config: str = "", after: str = "", trl: str = "1.16.0", **more: str) -> tuple[str, str, str]:
    """The status, the text of the port and what is found."""
    given = f", data_collator={collator}"
    script = sft_script(
        TOKENIZER, imports=IMPORT, config=config, trainer=given, after=f"trainer.train()\n{after}", **more
    )
    found = port(script, source_trl=trl)
    return found.status, found.after, str(found.recipe.findings)


@pytest.mark.parametrize(
    ("collator", "config", "after", "trl", "mask"),
    [
        (MADE, "", "", "1.16.0", NONE),
        (MADE, "", LABELLED, "0.16.1", OWN),
        (MADE, "", LABELLED, "1.5.0", OWN),
        (MADE, ", packing=True", "", "0.14.0", NONE),
        ("DataCollatorWithPadding(tokenizer)", ", packing=True", "", "0.14.0", NONE),
        ("default_data_collator", ", packing=True", "", "0.14.0", NONE),
        ("default_data_collator", "", LABELLED, "0.14.0", OWN),
        ("DataCollatorForLanguageModeling(tokenizer, mlm=False)", ", packing=True", "", "0.16.1", PADDING),
        (
            "DataCollatorForLanguageModeling(tokenizer, mlm=False)",
            ', packing=True, packing_strategy="wrapped"',
            "",
            "0.21.0",
            PADDING,
        ),
    ],
)
def test_collators_whose_batches_are_the_ports(collator: str, config: str, after: str, trl: str, mask: str) -> None:
    status, text, said = ported(collator, config, after, trl)
    assert status == "ported", said
    assert mask in text and ("label_mask" in text) == bool(mask) and "Collator" not in text.split("mesh =")[1]


@pytest.mark.parametrize(
    ("collator", "config", "after", "trl", "said"),
    [
        (MADE, "", "", "1.5.0", NO_LOSS),
        (MADE, "", LABELLED, "0.18.0", NO_LOSS),
        (MADE, ", packing=True", "", "0.16.1", NO_LOSS),
        (MADE, ", packing=True", "", "1.16.0", REFUSED),
        ("default_data_collator", "", "", "1.16.0", "pads no labels, and rows have several lengths"),
        ("DataCollatorForLanguageModeling(tokenizer, mlm=False)", ", packing=True", "", "1.16.0", REFUSED),
        ("DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=0)", "", LABELLED, "1.16.0", "carried over by hand"),
        ("DataCollatorForSeq2Seq(tokenizer, padding='max_length')", "", "", "1.16.0", "carried over by hand"),
    ],
)
def test_collators_with_which_the_gpu_run_ends(collator: str, config: str, after: str, trl: str, said: str) -> None:
    status, text, found = ported(collator, config, after, trl)
    assert status == "partial" and said in found and "label_mask" not in text


@pytest.mark.parametrize(
    ("given", "trl", "status"),
    [
        ("tokenizer, mlm=False", "0.14.0", "ported"),
        ("tokenizer, False", "0.14.0", "ported"),
        ("tokenizer, False", "1.16.0", "ported"),
        # masked language modeling, which is what this collator does unless it is told otherwise
        ("tokenizer", "0.14.0", "partial"),
        ("tokenizer=tokenizer, mlm=True", "0.14.0", "partial"),
        ("tokenizer, True", "1.16.0", "partial"),
        ("tokenizer, False, 0.15", "0.14.0", "partial"),
    ],
)
def test_the_collator_that_a_release_takes_anyway_trains_every_token(given: str, trl: str, status: str) -> None:
    collator = f", data_collator=DataCollatorForLanguageModeling({given})"
    script = sft_script(TOKENIZER, imports=IMPORT, trainer=collator)
    made = 'processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")'
    found = port(script.replace(made, "processing_class=tokenizer"), source_trl=trl)
    assert found.status == status, found.findings
    assert ("label_mask=rt.IgnorePadding(tokenizer, False)" in found.after) is (trl == "1.16.0" and status == "ported")


@pytest.mark.parametrize(("trl", "packing"), [("0.14.0", True), ("0.19.1", True), ("0.14.0", False)])
def test_a_mask_of_answers_is_refused_beside_packed_rows(trl: str, packing: bool) -> None:
    mask = 'DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)'
    imports = f"{IMPORT}\nfrom trl import DataCollatorForCompletionOnlyLM"
    script = sft_script(TOKENIZER, imports=imports, config=f", packing={packing}", trainer=f", data_collator={mask}")
    found = port(script, source_trl=trl)
    assert (found.status == "partial") == packing, found.recipe.findings
    assert ("refuses it beside rows that are packed" in str(found.recipe.findings)) == packing


def test_a_collator_of_a_variable_goes_with_its_last_use() -> None:
    _, text, _ = ported("collator", between=f"collator = {MADE}")
    assert "ollator" not in text.split("mesh =")[1]
    _, text, _ = ported("collator", after=LABELLED, trl="0.16.1", between=f"collator = {MADE}")
    assert "collator = rt.OwnLabels()" in text and "label_mask=collator" in text

    _, text, _ = ported("collator", between=f"collator = {MADE}", after="print(collator)")
    assert f"collator = {MADE}\n" in text


@pytest.mark.parametrize(("release", "makes"), [("2025.3.17", False), ("2025.3.18", True), ("2026.3.3", True)])
def test_unsloth_makes_labels_where_the_collator_makes_none(release: str, makes: bool) -> None:
    script = sft_script(TOKENIZER, imports=IMPORT, trainer=f", data_collator={MADE}")
    found = port(f"import unsloth  # pip install unsloth=={release}\n{script}")
    assert (PADDING in found.after) is makes and (found.status == "ported") is makes

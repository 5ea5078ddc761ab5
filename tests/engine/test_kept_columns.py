"""remove_unused_columns=False at an SFTTrainer whose collator wants tensors of every column."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

KEPT = ", remove_unused_columns=False, dataset_text_field='text'"
COLLATOR = ", data_collator=DataCollatorForCompletionOnlyLM('### Answer:', tokenizer=tokenizer)"
PADS = ", data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False)"
STACKS = ", data_collator=default_data_collator"
BETWEEN = 'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")'
IMPORTS = """\
from transformers import DataCollatorForLanguageModeling, default_data_collator
from trl import DataCollatorForCompletionOnlyLM
"""


def says(text: str, **options: object) -> str:
    found = [finding.message for finding in port(text, **options).findings]
    return " ".join(message for message in found if "ends at its first batch; the port trains" in message)


@pytest.mark.parametrize(
    ("release", "config", "trainer", "collator"),
    [
        ("0.12.2", KEPT, "", "its collator"),
        ("0.15.2", KEPT, "", "its collator"),
        ("0.16.0", KEPT, "", "its collator"),
        ("0.16.1", KEPT, "", ""),
        ("0.12.2", f"{KEPT}, packing=True", "", ""),
        ("0.12.2", ", dataset_text_field='text'", "", ""),
        ("0.12.2", KEPT, ", data_collator=None", "its collator"),
        ("0.12.2", f"{KEPT}, packing=False", "", "its collator"),
        ("0.12.2", KEPT.replace("False", "True"), "", ""),
        ("0.12.2", f"{KEPT}, dataset_kwargs={{'skip_prepare_dataset': True}}", "", ""),
        ("0.12.2", ", remove_unused_columns=False", "", "its collator"),
        ("0.12.2", ", remove_unused_columns=False", ", formatting_func=lambda row: row['text']", "its collator"),
        ("0.12.2", KEPT, COLLATOR, "DataCollatorForCompletionOnlyLM"),
        ("0.19.1", KEPT, COLLATOR, "DataCollatorForCompletionOnlyLM"),
        ("0.19.1", KEPT, PADS, "DataCollatorForLanguageModeling"),
        ("0.19.1", KEPT, STACKS, ""),
    ],
)
def test_what_ends_on_the_gpu_is_said(release: str, config: str, trainer: str, collator: str) -> None:
    text = sft_script(imports=IMPORTS, between=BETWEEN, config=config, trainer=trainer)
    message = says(text, source_trl=release)
    assert (f"of which {collator} can make no tensor" in message) if collator else not message, message


def test_rows_of_the_script_s_own_tokens_may_have_no_texts() -> None:
    config = ", remove_unused_columns=False"
    assert not says(sft_script(before="COLUMNS = ['input_ids']", config=config), source_trl="0.12.2")
    assert says(sft_script(before="COLUMNS = ['input_ids']", config=KEPT), source_trl="0.12.2")


@pytest.mark.parametrize(("unsloth", "ends"), [("2025.7.11", True), ("2026.4.4", False)])
def test_unsloth_keeps_the_columns_before_2026_2_1(unsloth: str, ends: bool) -> None:
    text = sft_script(imports=IMPORTS, between=BETWEEN, config=KEPT, trainer=PADS).replace(
        'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")',
        'FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=512)[0]',
    )
    text = (
        f"# /// script\n# dependencies = ['unsloth=={unsloth}']\n# ///\nfrom unsloth import FastLanguageModel\n{text}"
    )
    assert (f"Unsloth {unsloth} leaves the text" in says(text)) == ends

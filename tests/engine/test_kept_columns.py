"""remove_unused_columns=False at an SFTTrainer whose collator wants tensors of every column."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

KEPT = ", remove_unused_columns=False, dataset_text_field='text'"
COLLATOR = ", data_collator=DataCollatorForCompletionOnlyLM('### Answer:', tokenizer=tokenizer)"


@pytest.mark.parametrize(
    ("release", "config", "trainer", "says"),
    [
        ("0.12.2", KEPT, "", True),
        ("0.15.2", KEPT, "", True),
        ("0.16.1", KEPT, "", False),
        ("0.12.2", f"{KEPT}, packing=True", "", False),
        ("0.12.2", ", dataset_text_field='text'", "", False),
        ("0.12.2", ", remove_unused_columns=False", "", False),
        ("0.12.2", KEPT, COLLATOR, False),
    ],
)
def test_what_ends_on_the_gpu_is_said(release: str, config: str, trainer: str, says: bool) -> None:
    imports = "from trl import DataCollatorForCompletionOnlyLM"
    between = 'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")'
    text = sft_script(imports=imports, between=between, config=config, trainer=trainer)
    found = port(text, source_trl=release)
    assert any("ends at its first batch" in finding.message for finding in found.findings) == says, found.findings

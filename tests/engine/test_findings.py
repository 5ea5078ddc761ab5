"""Findings have keys, by which they are taken back."""

from __future__ import annotations

import re

from porter.engine.draft.findings import Findings
from porter.recipe import Finding
from tests.engine.porting import OTHER_TASK, port, sft_script

PACKED = Finding("TP101", "error", "packing=True: no", "", 3, 5)
OTHER = Finding("TP190", "error", "trainer.save_state(): no", "", 3, 1)


def test_what_was_said_is_taken_back_by_its_key() -> None:
    said = Findings()
    said.add(PACKED, "SFTConfig.packing", stands=True)
    said.add(OTHER, stands=True)
    said.add(OTHER, "later")  # the same again changes nothing
    assert said.has("SFTConfig.packing") and said.has(".packing") and not said.has(".acking") and not said.has("later")
    assert said.standing() == {3: [PACKED, OTHER]}
    said.withdraw("")
    said.withdraw(".no_packing")
    assert [*said] == [PACKED, OTHER]
    said.withdraw(".packing")
    assert [*said] == [OTHER] and said.standing() == {3: [OTHER]}


def test_findings_of_two_trainers_are_one() -> None:
    one, two = Findings(), Findings()
    one.add(OTHER)
    two.add(OTHER, stands=True)
    two.add(PACKED, "SFTConfig.packing")
    one.take(two, 0)
    assert [*one] == [OTHER, PACKED] and one.standing() == {3: [OTHER]} and one.has(".packing")
    one.take(two, 10)
    assert [finding.line for finding in one] == [3, 3, 13, 13]


def test_a_collator_that_becomes_a_mask_takes_back_what_the_table_said_of_it_alone() -> None:
    """`data_collator=` in another finding's text on the same line is not the table's row of that keyword."""
    text = sft_script(
        before="from trl import DataCollatorForCompletionOnlyLM",
        trainer=', data_collator=DataCollatorForCompletionOnlyLM("###", tokenizer=tok), own="data_collator="',
        between='tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")',
    )
    joined = re.sub(
        r"\(\n    model,.*\n\)\n", lambda found: found[0].replace("\n", " ").rstrip() + "\n", text, flags=re.S
    )
    found = port(joined, source_trl="0.15")
    assert any("own" in finding.message for finding in found.findings), found.findings
    assert not any(finding.message.startswith("SFTTrainer.data_collator") for finding in found.findings)


def test_a_model_of_another_kind_is_refused_with_one_sentence() -> None:
    """Who knows more takes back that the model's origin is not followed."""
    found = port(OTHER_TASK)
    assert found.status == "unsupported"
    assert [finding.rule for finding in found.findings if finding.severity == "error"] == ["TP302"]

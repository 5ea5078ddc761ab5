"""train_on_responses_only of Unsloth's releases."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
# pip install unsloth=={release} trl==0.12.2
from datasets import load_dataset
from unsloth import FastLanguageModel
from unsloth.chat_templates import train_on_responses_only
from trl import SFTConfig, SFTTrainer

rows = load_dataset('x', split='train')
model, tokenizer = FastLanguageModel.from_pretrained('unsloth/Qwen2.5-7B', max_seq_length=512, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model)
trainer = SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)
trainer = train_on_responses_only(trainer, 'user:\\n', 'bot:\\n'{given})
trainer.train()
"""
ALL, COMMON = (f"rt.ResponsesOnly('user:\\n', 'bot:\\n', tokenizer{more})" for more in ("", ", force_match=False"))


@pytest.mark.parametrize(
    ("release", "given", "mask", "said"),
    [
        ("2024.10.3", "", COMMON, "Read as Unsloth 2024.10.3, which trains the line end"),
        ("2025.3.8", "", COMMON, "Read as Unsloth 2025.3.8, which trains the line end"),
        ("2025.3.9", "", ALL, ""),
        ("2025.3.9", ", force_match=False", COMMON, ""),
        ("2025.3.9", ", force_match=True", ALL, ""),
        ("2025.3.9", ", force_match=bool(input())", ALL, "force_match=bool(input()): where it is False"),
        ("2024.8", "", ALL, "Unsloth 2024.8 also trains the instruction_part"),
    ],
)
def test_parts_are_looked_for_as_the_release_does(release: str, given: str, mask: str, said: str) -> None:
    ported = port(SCRIPT.format(release=release, given=given))
    assert f"label_mask={mask},\n" in ported.after, ported.after
    messages = [finding.message for finding in ported.findings if finding.rule == "TP720"]
    assert len(messages) == bool(said) and all(message.startswith(said) for message in messages)
    assert mask in port(ported.after).after


@pytest.mark.parametrize(
    ("given", "mask", "said"),
    [
        (", last_response_only=True, num_proc=2", ALL[:-1] + ", last_response_only=True)", ""),
        (", last_response_only=False", ALL, ""),
        (", last_response_only=bool(input())", ALL, "last_response_only=bool(input()): where it is True"),
        (", mask_out_tokens=['</think>']", ALL, "mask_out_tokens=['</think>']: these tokens aren't trained"),
    ],
)
def test_what_newer_releases_take_besides_is_not_dropped(given: str, mask: str, said: str) -> None:
    ported = port(SCRIPT.format(release="2026.10.9", given=given))
    assert f"label_mask={mask},\n" in ported.after, ported.after
    errors = [finding.message for finding in ported.findings if finding.rule == "TP720" and finding.severity == "error"]
    assert len(errors) == bool(said) and all(message.startswith(said) for message in errors)


def test_the_rows_of_transformers_own_trainer_are_masked_by_a_person() -> None:
    """The call went, and all tokens were trained."""
    script = SCRIPT.format(release="2025.5.6", given="").replace(
        "from trl import SFTConfig, SFTTrainer", "import transformers"
    )
    ported = port(
        script.replace("SFTTrainer", "transformers.Trainer").replace("SFTConfig", "transformers.TrainingArguments")
    )
    errors = [finding.message for finding in ported.findings if finding.rule == "TP720"]
    assert errors == ["train_on_responses_only masks the rows of Trainer; the port does that for SFTTrainer."]
    assert ported.status == "partial" and "trainer = train_on_responses_only(trainer, 'user" in ported.after

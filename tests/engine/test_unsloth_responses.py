"""train_on_responses_only of Unsloth's releases."""

from __future__ import annotations

import pytest

from porter.port import Port

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


CALL = "trainer = train_on_responses_only(trainer, 'user:\\n', 'bot:\\n')\n"
MASK = ALL


def masked(lines: str, *, before: str = "", given: str = "") -> Port:
    """The port of the script with other lines where the call stands; `given`: further keywords of the trainer."""
    text = SCRIPT.format(release="2025.3.9", given="").replace(CALL, lines)
    text = text.replace("rows = load", f"import sys\n{before}rows = load")
    return port(text.replace("processing_class=tokenizer)", f"processing_class=tokenizer{given})"))


@pytest.mark.parametrize(
    ("before", "lines", "condition"),
    [
        ("", f"if len(sys.argv) > 1:\n    {CALL}", "len(sys.argv) > 1"),
        ("", f"if sys.argv:\n    print(1)\nelse:\n    {CALL}", "not sys.argv"),
        ("", f"if sys.argv or rows:\n    if rows:\n        {CALL}", "(sys.argv or rows) and rows"),
        ("", f"if sys.argv:\n    pass\nelif rows:\n    {CALL}", "not sys.argv and rows"),
        ("ON = True\n", f"if ON and rows:\n    {CALL}", "(ON and rows)"),
        ("", CALL.rstrip() + " if sys.argv else trainer\n", "sys.argv"),
        ("", f"with open('log'):\n    {CALL}", ""),
        ("ON = True\n", f"if ON:\n    {CALL}", ""),
    ],
)
def test_a_mask_under_a_condition(before: str, lines: str, condition: str) -> None:
    found = masked(lines, before=before)
    made = " ".join(found.after.partition("label_mask=")[2].split()).lstrip("( ")
    assert found.status == "ported" and made.startswith(f"{MASK} if {condition} else None" if condition else MASK), made


@pytest.mark.parametrize("lines", [f"if ON:\n    {CALL}", f"if not ON:\n    pass\nelse:\n    {CALL}"])
def test_a_mask_that_is_never_made(lines: str) -> None:
    found = masked(lines, before="ON = False\n")
    assert found.status == "ported" and "label_mask" not in found.after and "responses_only" not in found.after


HOLDS, TRAINED = "runs where a condition holds that can't be read", "comes behind a training"


@pytest.mark.parametrize(
    ("lines", "given", "said"),
    [
        (f"mask = bool(sys.argv)\nif mask:\n    {CALL}", "", HOLDS),
        (f"for _ in range(2):\n    {CALL.partition(' = ')[2]}", "", HOLDS),
        (f"try:\n    print(1)\nexcept ValueError:\n    {CALL}", "", HOLDS),
        (f"if (mask := sys.argv):\n    {CALL}", "", HOLDS),
        (f"import argparse\nargs = argparse.Namespace(mask=input())\nif args.mask:\n    {CALL}", "", HOLDS),
        (f"if len(trainer.train_dataset) > 9:\n    {CALL}", "", HOLDS),
        (
            f"def mask(trainer):\n    return {CALL.partition(' = ')[2]}if sys.argv:\n    trainer = mask(trainer)\n",
            "",
            HOLDS,
        ),
        (f"if sys.argv:\n    {CALL}", ", data_collator=own", "takes the place of data_collator where sys.argv"),
        (f"trainer.train()\n{CALL}", "", TRAINED),
    ],
)
def test_a_mask_that_the_batches_cannot_be_told_of(lines: str, given: str, said: str) -> None:
    found = masked(lines, given=given)
    assert found.status == "partial" and "ResponsesOnly" not in found.after
    assert any(said in finding.message for finding in found.findings if finding.rule == "TP720"), found.findings


def test_a_trainer_of_the_same_name_in_another_function_is_masked_alone() -> None:
    head, made = SCRIPT.format(release="2025.3.9", given="").split("trainer = SFT")
    body = f"trainer = SFT{made}".replace("\n", "\n    ").rstrip()
    plain = body.replace(CALL.rstrip(), "print(1)")
    found = port(f"{head}def masked():\n    {body}\ndef plain():\n    {plain}\nmasked()\nplain()\n")
    assert found.after.count(f"label_mask={MASK},\n") == 1, found.after

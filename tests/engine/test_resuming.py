"""Whether a run resumes, decided behind the trainer: said at the trainer, in Orbax's names."""

import pytest

from .porting import port

SCRIPT = """import os, pathlib, sys
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

resume = "--resume" in sys.argv
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
trainer = SFTTrainer(
    model,
    args=SFTConfig(output_dir="out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
{lines}
"""
LAST = 'rt.get_last_checkpoint("out")'
BOTH = "{}:\n    trainer.train(resume_from_checkpoint=True)\nelse:\n    trainer.train()"


@pytest.mark.parametrize(
    ("lines", "decides"),
    [
        (BOTH.format("if resume"), "resume"),
        (BOTH.format("if get_last_checkpoint('out') is not None and resume"), None),
        (BOTH.format("if list(pathlib.Path('out').glob('checkpoint-*'))"), LAST),
        ("found = list(pathlib.Path('out').glob('checkpoint-*'))\n" + BOTH.format("if found"), LAST),
        ("try:\n    trainer.train(resume_from_checkpoint=True)\nexcept ValueError:\n    trainer.train()", LAST),
        (
            "if not resume:\n    trainer.train()\nelse:\n    trainer.train(resume_from_checkpoint=True)",
            "not (not resume)",
        ),
        ("trainer.train(resume_from_checkpoint=resume)", "resume"),
    ],
)
def test_what_decides_stands_at_the_trainer(lines: str, decides: str | None) -> None:
    ported = port(SCRIPT.format(lines=lines))
    assert ported.status == "ported", ported.findings
    decides = decides or "rt.get_last_checkpoint('out') is not None and resume"
    assert f'rt.resume_dir("out") if {decides} else rt.fresh_dir("out")' in ported.after
    assert "checkpoint-*" not in ported.after or "found = " in ported.after


def test_the_config_object_is_told() -> None:
    text = SCRIPT.format(lines=BOTH.format("if resume")).replace(
        '"out", max', "sys.argv[1], save_strategy=sys.argv[2], max"
    )
    ported = port(text)
    assert "training_args.resume_from_checkpoint = bool(resume)\n" in ported.after


def test_always_and_never() -> None:
    assert 'rt.resume_dir("out")' in port(SCRIPT.format(lines="trainer.train(resume_from_checkpoint=True)")).after
    assert 'rt.fresh_dir("out")' in port(SCRIPT.format(lines="trainer.train(resume_from_checkpoint=False)")).after


def test_a_condition_that_comes_later_is_named() -> None:
    ported = port(SCRIPT.format(lines="later = len(sys.argv) > 1\n" + BOTH.format("if later")))
    assert [finding.rule for finding in ported.findings if finding.severity == "error"] == ["TP111"]
    assert "it hangs on later" in ported.findings[-1].message or any(
        "it hangs on later" in finding.message for finding in ported.findings
    )

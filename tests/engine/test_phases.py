"""Reading and writing don't mix: what reads a script can't edit, and a refused script comes out byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest

from porter.engine import pipeline
from porter.engine.packs.packs import load_packs
from porter.engine.script.porting import Porting
from porter.engine.script.training import Training
from porter.engine.steps.order import arranged, steps_in
from porter.engine.steps.step import Phase, Step
from tests.engine.porting import PLAIN, check_becomes, check_noop, port, sft_script

EDITS = ("edit", "edits", "replace", "replace_statement", "remove_statement", "covered", "is_gone", "moved")
COLLATOR = sft_script(
    before="from transformers import DataCollatorForLanguageModeling",
    between="""\
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)""",
    trainer=", data_collator=collator",
)
QUANTIZED = sft_script(
    before="from transformers import BitsAndBytesConfig\nkind = BitsAndBytesConfig(load_in_4bit=True, colour=3)",
    load=", quantization_config=kind",
    trainer=", peft_config=LoraConfig(r=8)",
    imports="from peft import LoraConfig",
)
RESUMED = sft_script(
    before="import glob",
    after="""\
if glob.glob("out/checkpoint-*"):
    trainer.train(resume_from_checkpoint=True)
else:
    trainer.train()""",
)


def test_what_reads_has_no_edits() -> None:
    assert not [name for name in EDITS if hasattr(Training, name) or name in Training.__dataclass_fields__]
    assert all(hasattr(Porting, name) or name in Porting.__dataclass_fields__ for name in EDITS)


OF_PACKS = tuple(each for pack in load_packs() for each in pack.steps)
READERS = [each for each in (*steps_in(pipeline.STEPS), *OF_PACKS) if each.phase is Phase.READ]


@pytest.mark.parametrize(
    "reader", ["find_sites", *READERS], ids=lambda each: each.name if isinstance(each, Step) else each
)
def test_an_edit_while_reading_raises(reader: str | Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the phase, and in each of its steps."""

    def edits(training: Training, *_: object) -> None:
        training.edit(0, 0, "x = 1\n", "TP001", "because")  # type: ignore[attr-defined]

    monkeypatch.setenv("TPU_PORT_TRACEBACK", "1")
    if isinstance(reader, Step):
        every = (*steps_in(pipeline.STEPS), *OF_PACKS)
        steps = [replace(each, run=edits) if each is reader else each for each in every]
        order = arranged(steps)
        monkeypatch.setattr(pipeline, "steps_of", lambda *_: order)
    else:
        monkeypatch.setattr(pipeline, reader, edits)
    with pytest.raises(AttributeError, match="'Training' object has no attribute 'edit'"):
        port(PLAIN)


@pytest.mark.parametrize("text", [COLLATOR, QUANTIZED, RESUMED])
def test_a_refused_script_comes_out_byte_for_byte(text: str) -> None:
    """Each of them is edited where a reader saw it when it can be ported, and its last line has a TODO."""
    text += "\ntrainer.save_state()"
    assert port(text).status in ("ported", "partial")
    refused = check_noop(text.replace("Qwen/Qwen3-0.6B", "mistralai/Mixtral-8x7B-v0.1"))
    assert refused.status == "unsupported" and any(found.rule == "TP302" for found in refused.findings)


def test_what_readers_found_is_written() -> None:
    check_becomes(COLLATOR, "collator = rt.IgnorePadding(tokenizer, mlm=False)")
    check_becomes(RESUMED, 'if rt.get_last_checkpoint("out"):')
    assert "colour" not in port(QUANTIZED).after

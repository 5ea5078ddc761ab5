"""Properties of every port, over scripts put together at random: edits never overlap, a port is a fixed point, and
a file without TRL comes back byte for byte."""

from __future__ import annotations

import ast
import contextlib
import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porter.errors import InputError
from porter.text.edits import apply_edits
from tests.fuzzing import SEEDS

from .porting import check_noop, port

CONFIG = st.lists(
    st.sampled_from(
        [
            "learning_rate=1e-4",
            "learning_rate=LR\n        * 2",
            "max_steps=10",
            "num_train_epochs=2",
            "warmup_steps=5",
            "warmup_ratio=0.1",
            "lr_scheduler_type='cosine'",
            "lr_scheduler_type=kind()",
            "per_device_train_batch_size=BATCH",
            "gradient_accumulation_steps=4,  # as many as fit",
            "packing=True",
            "eval_strategy='epoch'",
            "gradient_checkpointing=False",
            "optim='adafactor'",
            "bf16=True",
            "report_to='none'",
            "**MORE",
            "save_strategy='no'",
            "weight_decay=0.1",
        ]
    ),
    unique_by=lambda text: text.split("=")[0],
    max_size=8,
)
TRAINER = st.lists(
    st.sampled_from(
        [
            "eval_dataset=rows\n    if LR\n    else None",
            "processing_class=tok",
            "peft_config=LoraConfig(r=8)",
            "peft_config=peft.LoraConfig(r=R, lora_alpha=2 * R, target_modules=['q_proj', 'v_proj'])",
            "formatting_func=lambda row: row['text']",
            "data_collator=make(\n        tok,\n    )\n    or None",
            "callbacks=[mine()]",
        ]
    ),
    unique_by=lambda text: text.split("=")[0],
    max_size=4,
)
AFTER = st.lists(
    st.sampled_from(
        [
            "trainer.save_model('out/last')",
            "trainer.push_to_hub()",
            "print(trainer.evaluate())",
            "print(args.output_dir)",
            "torch.cuda.empty_cache()",
            "if trainer.is_world_process_zero():\n    print('done')",
            "trainer.whatever(1)",
            "# a comment",
        ]
    ),
    max_size=4,
)
MODEL = st.sampled_from(
    [
        "'Qwen/Qwen3-0.6B'",
        "NAME",
        "AutoModelForCausalLM.from_pretrained(NAME, dtype=torch.bfloat16)",
        "make_model()",
        "'mistralai/Mixtral-8x7B-v0.1'",
    ]
)
HEAD = """\
import peft
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

LR, BATCH, R, NAME = 2e-4, 2, 16, 'google/gemma-2-2b'
MORE = {'seed': 7}
"""


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """A training script: at the top level or in a function, with LF or CRLF, spaces or tabs."""
    config = "".join(f"\n    {item}{'' if '#' in item else ','}" for item in draw(CONFIG))
    trainer = ", ".join(["model", "args=args", "train_dataset=rows", *draw(TRAINER)])
    body = "\n".join(
        [
            "rows = load_dataset('x', split='train')",
            "tok = AutoTokenizer.from_pretrained(NAME)",
            f"args = SFTConfig(\n    'out',{config}\n)",
            f"model = {draw(MODEL)}",
            f"trainer = SFTTrainer({trainer})",
            "trainer.train()",
            *draw(AFTER),
        ]
    )
    if draw(st.booleans()):
        body = "def main():\n" + "".join(f"    {line}\n" for line in body.split("\n")) + "\n\nmain()"
    text = f"{HEAD}\n{body}\n"
    if draw(st.booleans()):
        text = text.replace("    ", "\t")
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts())
def test_a_port_is_made_of_edits_parses_and_is_a_fixed_point(text: str) -> None:
    found = port(text)
    ordered = sorted(found.edits, key=lambda edit: (edit.start, edit.end))
    assert all(one.end <= other.start for one, other in pairwise(ordered))
    assert apply_edits(text, found.edits) == found.after
    ast.parse(found.after)
    if "\r\n" in text:
        assert found.after.count("\n") == found.after.count("\r\n") and "\r\r" not in found.after
    else:
        assert "\r" not in found.after
    if found.status in ("ported", "partial"):
        check_noop(found.data)


@pytest.mark.parametrize("text", SEEDS[::6], ids=map(str, range(0, len(SEEDS), 6)))
def test_line_ends_of_windows_change_nothing_but_the_line_ends(text: str) -> None:
    plain = re.sub(r"\r\n?", "\n", text)
    found, windows = port(plain), port(plain.replace("\n", "\r\n"))
    assert windows.after == found.after.replace("\n", "\r\n")
    assert windows.findings == found.findings


NAMES = st.sampled_from(["x", "SFTTrainer", "LoraConfig", "torch", "args", "model", "é"])
STATEMENTS = st.one_of(
    st.builds("{} = {}".format, NAMES, st.integers() | st.text(max_size=5).map(repr)),
    st.builds("import {}".format, st.sampled_from(["os", "torch", "peft", "transformers", "accelerate"])),
    st.builds("{}.{}({}={})".format, NAMES, NAMES, NAMES, NAMES),
    st.builds("def {}({}):\n\treturn {}".format, NAMES, NAMES, NAMES),
    st.builds("class {}: ...".format, NAMES),
    st.builds("# {}".format, st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=9)),
    st.just("\f"),
    st.just(""),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STATEMENTS, max_size=8), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans())
def test_a_file_without_trl_comes_back_byte_for_byte(lines: list[str], newline: str, bom: bool, end: bool) -> None:
    text = "\n".join(lines) + ("\n" if end else "")
    with contextlib.suppress(InputError):
        check_noop((b"\xef\xbb\xbf" if bom else b"") + text.replace("\n", newline).encode())


EVALUATING = """from datasets import load_dataset
from trl import SFTConfig, SFTTrainer


class Run:
    def train(self, rows):
        args = SFTConfig("out")
        self.trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows["train"], eval_dataset=rows["test"])
        self.trainer.train()

    def evaluate(self, rows=None):
        held_out = GIVEN
        return self.trainer.evaluate(CALL)


Run().train(load_dataset("a/b"))
"""


@pytest.mark.parametrize(
    ("given", "call", "batches"),
    [
        (
            'rows["test"] if rows else None',
            "held_out",
            "self.trainer.eval_batches if held_out is None else self.trainer.b",
        ),
        (
            "1",
            "eval_dataset=rows",
            "self.trainer.eval_batches if rows is None else self.trainer.batches.evaluation(rows,",
        ),
        ("1", "eval_dataset=None", "self.trainer.eval_batches)"),
        ('rows["test"]', "held_out", "self.trainer.batches.evaluation(held_out,"),
    ],
)
def test_without_rows_of_its_own_an_evaluation_is_of_the_trainers(given: str, call: str, batches: str) -> None:
    after = port(EVALUATING.replace("GIVEN", given).replace("CALL", call)).after
    assert f"rt.evaluate(self.trainer, {batches}" in re.sub(r"\(\s+", "(", re.sub(r",\s+", ", ", after))

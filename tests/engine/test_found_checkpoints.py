"""What a run resumes from, where a script looks for it in the folder of checkpoints."""

from __future__ import annotations

import pytest

from .porting import HEAD, PLAIN, check_becomes, port, sft_script

RESUMED = """args = SFTConfig('out', **settings())
last = None
if args.output_dir:
    last = get_last_checkpoint(args.output_dir)
trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)
checkpoint = None
if args.resume_from_checkpoint is not None:
    checkpoint = args.resume_from_checkpoint
elif last is not None:
    checkpoint = last
trainer.train(resume_from_checkpoint=checkpoint)
"""


def test_what_to_resume_from_may_be_decided_behind_the_trainer() -> None:
    text = f"from transformers.trainer_utils import get_last_checkpoint\n{HEAD}{RESUMED}"
    check_becomes(
        text,
        "args.resume_from_checkpoint = args.resume_from_checkpoint or last\ntrainer = PeftTrainer(",
        "    last = rt.get_last_checkpoint(args.output_dir)\n",
    )
    check_becomes(
        text.replace("elif last is not None", "elif len(rows) > 9"), " or (last if len(rows) > 9 else None)\n"
    )
    other = port(text.replace("elif last is not None", "elif trainer.is_world_process_zero()"))
    assert any("it is set after the trainer" in finding.message for finding in other.findings)


def test_a_search_for_torchs_checkpoints_is_one_for_orbaxs() -> None:
    text = PLAIN.replace(
        "trainer.train()", "found = glob.glob('out/checkpoint-*') != []\ntrainer.train(resume_from_checkpoint=found)"
    )
    found = port(f"import glob\n{text}")
    assert "rt.resume_dir('out') if rt.get_last_checkpoint('out') else rt.fresh_dir('out')" in found.after


SEARCH = """found = list(OUT.glob("checkpoint-*"))
resume = None
if found:
    resume = str(max(found, key=lambda path: int(path.name.split("-")[1])))
trainer.train(resume_from_checkpoint=resume)
"""


def test_a_folder_that_the_arguments_hold_as_text_is_the_same_folder() -> None:
    before = "OUT = pathlib.Path(sys.argv[1])"
    text = sft_script(before, imports="import pathlib, sys", config=", save_strategy=sys.argv[2]", after=SEARCH)
    ported = port(text.replace('output_dir="out"', "output_dir=str(OUT)"))
    assert ported.status == "ported", ported.findings
    said = "resume_from_checkpoint = rt.get_last_checkpoint(training_args.output_dir)\n"
    assert said in ported.after
    other = port(text.replace('output_dir="out"', "output_dir=str(OUT)").replace("OUT.glob", "OUT.parent.glob"))
    assert any("by their step" in finding.message for finding in other.findings)


CHECKED = "path = args.resume\nif path and not os.path.exists(path):\n    print(path)\n    path = None\n"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (CHECKED, "None if args.resume and not os.path.exists(args.resume) else args.resume"),
        ("asked = args.resume or None\npath = asked if asked != 'no' else None\n",
         "(args.resume or None) if (args.resume or None) != 'no' else None"),
        ("path = args.resume\nif path == 'é' or f'{path}':\n    path = None\n", ""),
        ("asked = bool(len(sys.argv))\npath = args.resume if asked else None\n",
         "args.resume if bool(len(sys.argv)) else None"),
        ("asked = input()\npath = asked or None\n", ""),
        ("asked = args.resume\npath = asked\nasked = 'other'\n", ""),
        ("for asked in sys.argv:\n    pass\npath = asked\n", ""),
    ],
)  # fmt: skip
def test_what_is_decided_step_by_step_behind_the_trainer(lines: str, code: str) -> None:
    before = "args = argparse.ArgumentParser().parse_args()"
    lines += "trainer.train(resume_from_checkpoint=path)"
    ported = port(sft_script(before, imports="import argparse, os, sys", after=lines))
    if code:
        assert ported.status == "ported", ported.findings
        assert f'rt.resume_dir("out", {code}) if ({code}) else rt.fresh_dir("out")' in " ".join(ported.after.split())
    else:
        assert any("it is set after the trainer" in finding.message for finding in ported.findings), ported.after


PARSED = """from transformers import HfArgumentParser
from trl import SFTConfig, SFTTrainer

(args,) = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows)
trainer.train({})
"""


@pytest.mark.parametrize("given", ["", "resume_from_checkpoint=None", "args.resume_from_checkpoint"])
def test_an_option_of_the_command_line_resumes_where_train_is_given_it(given: str) -> None:
    """The Trainer doesn't read `--resume_from_checkpoint` itself."""
    after = port(PARSED.format(given)).after
    line = "\nargs.resume_from_checkpoint = None  # as train() is given nothing\n"
    assert (line in after) is not given.startswith("args")


@pytest.mark.parametrize("line", ["args.resume_from_checkpoint = sys.argv[2]", "args.seed = 1"])
def test_what_a_script_sets_resumes_nothing_either(line: str) -> None:
    text = sft_script(imports="import sys", config=", save_strategy=sys.argv[1]")
    text = text.replace("trainer = ", f"{line.replace('args', 'training_args')}\ntrainer = ", 1)
    said = "training_args.resume_from_checkpoint = None  # as train() is given nothing"
    assert (said in port(text).after) is ("resume" in line)


MADE = """from trl import SFTConfig, SFTTrainer


def make(args):
    return SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows)


def train(path=None):
    trainer = make(SFTConfig("out", max_steps=5{config}))
    trainer.train(resume_from_checkpoint=path)
"""


@pytest.mark.parametrize("config", ["", ", save_strategy=input()"])
def test_a_path_that_the_function_of_the_trainer_has_not(config: str) -> None:
    """The port read a name there that the function hasn't."""
    text = MADE.format(config=config)
    said = [each.message for each in port(text).findings if each.severity == "error"]
    assert any("it isn't known in the function that makes the trainer" in each for each in said), said

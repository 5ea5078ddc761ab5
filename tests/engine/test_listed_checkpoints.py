"""Checkpoints that a script lists behind the training, by the name that transformers gives them."""

import pytest

from .porting import port, sft_script

LAST = "last = sorted(name for name in os.listdir('out') if name.startswith('checkpoint-'))[-1]\nprint(last)"


@pytest.mark.parametrize(
    "lists",
    [
        LAST,
        LAST.replace("checkpoint-", "checkpoint"),
        LAST.replace("name.startswith('checkpoint-')", "'checkpoint' in name"),
        "for old in glob.glob('out/checkpoint-*'):\n    print(old)",
        "for old in glob.glob('out/checkpoint*'):\n    print(old)",
    ],
)
def test_what_finds_none_is_an_error(lists: str) -> None:
    found = port(sft_script(imports="import glob, os", after=f"trainer.train()\n{lists}\n"))
    said = [finding for finding in found.findings if finding.rule == "TP314"]
    assert found.status == "partial" and len(said) == 1 and "Orbax's" in said[0].message


def test_what_lists_other_files_or_stands_in_front_is_the_users() -> None:
    for listed in ("os.listdir('logs')", "os.listdir('checkpoints')", "os.listdir(settings['checkpoint'])"):
        other = f"settings = {{}}\nprint({listed})\nprint('checkpoint-500')"
        found = port(sft_script(LAST, imports="import os", after=f"trainer.train()\n{other}\n"))
        assert found.status == "ported" and other in found.after

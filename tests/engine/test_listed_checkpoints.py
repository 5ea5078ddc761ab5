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
    said = [finding for finding in found.findings if finding.rule == "TP314" and finding.severity == "error"]
    assert found.status == "partial" and len(said) == 1 and "Orbax's" in said[0].message


def test_what_lists_other_files_or_stands_in_front_is_the_users() -> None:
    for listed in ("os.listdir('logs')", "os.listdir('checkpoints')", "os.listdir(settings['checkpoint'])"):
        other = f"settings = {{}}\nprint({listed})\nprint('checkpoint-500')"
        found = port(sft_script(LAST, imports="import os", after=f"trainer.train()\n{other}\n"))
        assert found.status == "ported" and other in found.after


NAMES = "[name for name in os.listdir({}) if name.startswith('checkpoint-')]"


@pytest.mark.parametrize(
    "shows", ["print(sorted(names))", "print(f'{len(names)} saved: {names}')", "print(', '.join(names))"]
)
def test_names_that_are_only_printed_are_steps(shows: str) -> None:
    made = NAMES.format("'out'")
    found = port(sft_script(imports="import os", after=f"trainer.train()\nnames = {made}\n{shows}\n"))
    assert found.status == "ported", found.findings
    steps = made.replace("startswith('checkpoint-')", "isdigit()")
    assert f"names = {steps}\n{shows}\n" in found.after


@pytest.mark.parametrize(
    ("folder", "shows"),
    [
        ("'out'", "print(sorted(names, key=lambda name: int(name.split('-')[1])))"),
        ("'out'", "print(names)\nlast = names[-1]"),
        ("'out'", "import shutil\nshutil.rmtree(names[0])"),
        ("'elsewhere'", "print(names)"),
    ],
)
def test_names_that_something_is_made_of_are_not(folder: str, shows: str) -> None:
    lines = f"trainer.train()\nnames = {NAMES.format(folder)}\n{shows}\n"
    found = port(sft_script(imports="import os", after=lines))
    assert found.status == "partial" and NAMES.format(folder) in found.after


ONLY = "Only checkpoints hold what is trained"


@pytest.mark.parametrize(
    ("after", "config", "told"),
    [
        ("trainer.train()", "", True),
        ("trainer.train()\ntokenizer.save_pretrained('out')", "", True),
        ("trainer.train()", ", save_strategy='no'", False),
        ("trainer.train()\ntrainer.save_model('out')", "", False),
        ("trainer.train()\nmodel.save_pretrained('out')", "", False),
        ("trainer.train()\nfrom mine import save_all\nsave_all(trainer)", "", False),
        ("def run():\n    trainer.train()\n    return trainer\nrun()", "", False),
        ("def again():\n    return model, tokenizer\nagain()\ntrainer.train()", "", True),
        ("def fit():\n    trainer.train()\ndef run():\n    fit()\n    return model\nrun()", "", False),
        ("print(trainer)", "", False),
    ],
)
def test_a_script_that_saves_checkpoints_alone_is_told_of_their_format(after: str, config: str, told: bool) -> None:
    script = sft_script("tokenizer = load()", imports="from mine import load", config=config, after=f"{after}\n")
    said = [finding for finding in port(script).findings if ONLY in finding.message]
    assert [finding.severity for finding in said] == (["info"] if told else [])

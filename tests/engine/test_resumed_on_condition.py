"""A script that looks for its last checkpoint with a function of its own, and only where it is told to resume."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port, sft_script

BEFORE = """\
def find_last(folder):
    names = [name for name in os.listdir(folder) if name.startswith("checkpoint-")]
    return os.path.join(folder, max(names)) if names else None


resume = len(sys.argv) > 1
out = "out"
"""
CHOSEN = "last = find_last({}) if resume else None\n"
BRANCH = "last = None\nif resume:\n    last = find_last({})\n"
TRAIN = "trainer.train(resume_from_checkpoint=last)"
ASKED = "rt.get_last_checkpoint(out) if resume else None"


def resumed(between: str, after: str) -> Port:
    text = sft_script(BEFORE, imports="import os\nimport sys", between=between, after=after)
    return port(text.replace('output_dir="out"', "output_dir=out"))


@pytest.mark.parametrize(
    ("between", "after", "parts"),
    [
        ("", CHOSEN.format("out") + TRAIN, (f"last = {ASKED}\n", f"rt.resume_dir(out, {ASKED})")),
        (CHOSEN.format("out"), TRAIN, (f"last = {ASKED}\n", "rt.resume_dir(out, last) if last else")),
        (
            "",
            f"trainer.train(resume_from_checkpoint={CHOSEN.format('out')[7:-1]})",
            (f"rt.resume_dir(out) if ({ASKED})",),
        ),
        (
            "",
            BRANCH.format("out") + TRAIN,
            ("    last = rt.get_last_checkpoint(out)\n", f"rt.resume_dir(out, {ASKED})"),
        ),
        (BRANCH.format("out"), TRAIN, ("    last = rt.get_last_checkpoint(out)\n", "rt.resume_dir(out, last) if last")),
    ],
)
def test_it_asks_for_orbaxs_on_that_condition(between: str, after: str, parts: tuple[str, ...]) -> None:
    found = resumed(between, after)
    assert found.status == "ported"
    for part in parts:
        assert part in found.after, found.after


@pytest.mark.parametrize("where", ["'elsewhere'", "sys.argv[1]"])
@pytest.mark.parametrize("made", [CHOSEN, BRANCH])
def test_checkpoints_of_another_folder_are_left_to_a_person(made: str, where: str) -> None:
    for between, after in (("", made.format(where) + TRAIN), (made.format(where), TRAIN)):
        found = resumed(between, after)
        assert [each.rule for each in found.findings if each.severity == "error"] == ["TP111"]
        assert f"find_last({where})" in found.after

"""No rule and no pass looks into what another wrote or said: the text of an edit, a reason, a message.

An edit says what it is a part of, what it takes out, and what its code names and calls; `Porting` respells, moves and
joins what was written. A rule that knows another's text breaks when that is worded anew, or another pack writes it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import porter
from porter.text.edit import Edit
from porter.text.respelled import respelled

ROOT = Path(porter.__file__).resolve().parent.parent
ROOMS = ("porter/engine", "porter/packs", "porter/target", "rules")
TEXT = ("new", "reason", "message")

# What reads its own: the row of a pack's or a library's table, an exception that it caught, what a rule of it yields.
OWN = ("rule", "turn", "row", "error", "self", "item")

# The assembler, which makes one text of all edits and of all findings, and the parts of it that stand elsewhere.
ASSEMBLES = {
    "porter/engine/script/porting.py": "plans the edits, and changes them as rules ask it to",
    "porter/engine/script/trainers.py": "makes one list of the edits of several trainers, those alike once",
    "porter/engine/draft/findings.py": "puts findings in order",
    "porter/target/statements/remarks.py": "puts the source's comments where their marks stand",
    # Handed on to a person, and not looked into:
    "porter/engine/answering/unclaimed_configs.py": "the report's row of a keyword says what that of its holder says",
    "porter/engine/settling/constant_conditionals.py": "what a decided condition takes out has the decision's reason",
    "porter/engine/loops/loop_trainer.py": "what stands in the way of a loop's port becomes a finding",
    "porter/engine/loops/models_trained.py": "what is said of a model that Tunix hasn't is made beside its facts",
    "rules/transformers/loading/other_tasks.py": "what is said of a model that Tunix hasn't is made beside its facts",
    "porter/engine/loops/training_loops.py": "what stands in the way of a loop's port is said once a line",
}


def _reads(path: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in TEXT and isinstance(node.ctx, ast.Load):
            if not isinstance(node.value, ast.Name) or node.value.id not in OWN:
                yield node.lineno


def found() -> dict[str, list[int]]:
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py") if "cases" not in path.parts]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    kept = {name: path for name, path in names.items() if not name.startswith("porter/engine/assembling/")}
    return {name: lines for name, path in sorted(kept.items()) if (lines := [*_reads(path)])}


def test_nobody_reads_anothers_text() -> None:
    now = found()
    more = {name: lines for name, lines in now.items() if name not in ASSEMBLES}
    assert not more, f"ask what the edit is, names or calls; have a fact or a key for the rest: {more}"
    assert {*now} == {*ASSEMBLES}, "one that is listed reads nothing any more: take it out"


def _edit(new: str) -> Edit:
    return Edit(0, 0, new, "TP1", "", 1, 1)


def test_an_edit_says_what_its_code_names() -> None:
    edit = _edit('model = rt.load_model(args.name, mesh, dtype=jnp.bfloat16)  # not torch.float16\nprint("torch")\n')
    assert edit.names == {"rt.load_model", "args.name", "mesh", "jnp.bfloat16", "print"}
    assert edit.calls == {"rt.load_model", "print"}
    assert {"model", "dtype"} < edit.words and "torch" not in edit.words
    assert _edit("trainer.batches = batches").names == {"trainer", "batches"}


def test_an_edit_says_what_it_decides_and_takes_out() -> None:
    assert _edit("True").constant is True and _edit("False").constant is False and _edit("None").constant is None
    assert _edit(" \n").removes and not _edit("pass").removes


@pytest.mark.parametrize(
    ("new", "after"),
    [
        ("rate=args.lr)", "rate=1 if big else 2)"),
        ("x = 3 * args.lr", "x = 3 * (1 if big else 2)"),
        ('say(f"{args.lr}")  # was args.lr', 'say(f"{(1 if big else 2)}")  # was args.lr'),
        ('print("args.lr", own.args.lr, args.lr_end)', 'print("args.lr", own.args.lr, args.lr_end)'),
    ],
)
def test_code_that_is_repeated_becomes_the_same_but_in_strings_and_comments(new: str, after: str) -> None:
    assert respelled(_edit(new), "args.lr", "1 if big else 2", operand=True).new == after

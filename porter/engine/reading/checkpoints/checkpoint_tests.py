"""A condition that asks, among others, whether the run has left a checkpoint, by transformers' names.

    resume = cfg.resume and any(output_dir.glob("checkpoint-*"))
    trainer.train(resume_from_checkpoint=resume)

asks `rt.get_last_checkpoint(output_dir) is not None`, at the trainer and where the script does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ...script.fill_from_tables import follow
from ...script.training import Training

NAME = r"""[rf]?["']checkpoint-?["']"""
ALL = r"""[rf]?["']checkpoint-?\*["']"""
CODE = r"[\w.]+(?:\([^()]*\))?"  # `folder`, `cfg.folder`, `Path(cfg.folder)`
# Questions for anything in a folder that is called so; a folder of that name is a checkpoint.
GLOBS = (
    rf"(?P<folder>{CODE})\.glob\({ALL}\)",
    rf"glob\.i?glob\(os\.path\.join\((?P<folder>{CODE}), ?{ALL}\)\)",
    rf"""glob\.i?glob\(f["']\{{(?P<folder>{CODE})\}}/checkpoint-?\*["']\)""",
)
FOLDERS = r"(?: if (?:os\.path\.isdir\(os\.path\.join\([^()]+, ?(?P=name)\)\)|(?P=name)\.is_dir\(\)))?"
LISTS = (
    rf"any\(\[?(?P<name>\w+)\.startswith\({NAME}\) for (?P=name) in os\.listdir\((?P<folder>{CODE})\){FOLDERS}\]?\)",
    rf"any\(\[?(?P<name>\w+)\.name\.startswith\({NAME}\) for (?P=name) in "
    rf"(?P<folder>{CODE})\.iterdir\(\){FOLDERS}\]?\)",
)
TESTS = tuple(
    map(
        re.compile,
        (
            *(f"any\\({asks}\\)" for asks in GLOBS),
            *(f"(?:any|bool)\\((?:list|sorted)\\({asks}\\)\\)" for asks in GLOBS),
            *(f"len\\(list\\({asks}\\)\\) ?> ?0" for asks in GLOBS),
            *LISTS,
        ),
    )
)
WRAPPED = re.compile(r"(?:str|os\.fspath|Path|pathlib\.Path)\(([^()]+)\)")


@dataclass(frozen=True)
class Decided:
    """What train() resumes by: the question for checkpoints, as the port asks it, and the whole as code of the port.

    `names` is code that has the names of the whole.
    """

    asked: cst.BaseExpression
    asks: str
    code: str
    names: str


def decided_by_checkpoints(porting: Training, value: cst.BaseExpression) -> Decided | None:
    """What `value` says where it asks for checkpoints in the trainer's folder; None where it asks something else."""
    module = porting.module
    binding = module.single_binding(value) if isinstance(value, cst.Name) else None
    made = binding.value if binding is not None and binding.kind == "assign" else value
    asks = [(part, folder) for part in _parts(made) if (folder := _folder(porting, part))] if made is not None else []
    if made is None or len(asks) != 1:
        return None
    asked, folder = asks[0]
    code, start = module.code(made), module.span(asked)[0] - module.span(made)[0]
    behind = start + len(module.code(asked))
    asks_orbax = f"{porting.rt('get_last_checkpoint')}({folder}) is not None"
    whole, names = (" ".join(f"{code[:start]}{new}{code[behind:]}".split()) for new in (asks_orbax, folder))
    return Decided(asked, asks_orbax, whole, names)


def _parts(value: cst.BaseExpression | None) -> Iterator[cst.BaseExpression]:
    """The operands of `a and b`; the whole of another expression."""
    if isinstance(value, cst.BooleanOperation) and isinstance(value.operator, cst.And):
        yield from _parts(value.left)
        yield from _parts(value.right)
    elif value is not None:
        yield value


def _folder(porting: Training, part: cst.BaseExpression) -> str:
    """The folder whose checkpoints an expression asks for; empty where it isn't the trainer's, or asks for more."""
    code = " ".join(porting.module.code(part).split()).replace("( ", "(").replace(" )", ")")
    found = next((match for test in TESTS if (match := test.fullmatch(code)) is not None), None)
    folder = found["folder"] if found is not None else ""
    return folder if folder and _plain(folder) == _plain(_saves_to(porting)) else ""


def _saves_to(porting: Training) -> str:
    """The folder that the trainer saves to, as the script writes it."""
    assert porting.trainer is not None
    made = follow(porting, porting.trainer.argument("args"), "arguments")
    given = made.argument("output_dir") if made is not None else None
    return given.text if given is not None else porting.output_dir()


def _plain(folder: str) -> str:
    """`folder` of `str(folder)`, with one kind of quotes."""
    wrapped = WRAPPED.fullmatch(folder)
    return (wrapped[1] if wrapped is not None else folder).replace("'", '"')

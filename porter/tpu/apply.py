"""Write a plan into a port: mesh, micro-batch, remat and blocks of attention, with a comment that gives the numbers."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import InputError
from ..front.port_file import port_file
from ..port import Options, Port
from ..source.notebooks.notebook import read_notebook
from ..text.edit import Edit
from .plan import Plan
from .slices import GIB

MESH = re.compile(r"jax\.make_mesh\(\([^\n]*?\), (?=\(\"fsdp\", \"tp\"\))")
EARLIER = re.compile(
    r"^[ \t]*(?:# tpu-port plan for [^\n]*|micro_batch=[^\n]*,(?:  # the plan's)?"
    r"|(?:buckets|step_packing)=[^\n]*,  # the plan's|(\w+) = rt\.attend_in_blocks\(\1[^\n]*\)  # the plan's)\n",
    re.MULTILINE,
)
REMAT = re.compile(r"^[ \t]*(\w+) = rt\.remat\(\1\).*\n", re.MULTILINE)
BATCHES = re.compile(r"rt\.\w+Batches\(\n(?P<indent>[ \t]+)\S[^\n]*,\n(?P=indent)\S[^\n]*,\n(?:(?P=indent)\w+,\n){1,2}")
ADAPTED, LOADED = (
    re.compile(rf"^(?P<indent>[ \t]*)(?P<model>\w+) = rt\.{name}\((?:[^()]|\([^()]*\))*\)\n", re.MULTILINE)
    for name in ("apply_(?:lora|peft)", "load_model")
)
TRAINED = re.compile(r"\b\w*Trainer\(\s*(\w+),")


def port_of(path: Path) -> Port:
    """The port of a source script or notebook, unchanged when it is a port already. Nothing is written."""
    if not path.is_file():
        raise InputError("there is no such file", path)
    port = port_file(path, Options())
    if port.status == "unchanged" and re.search(r"rt\.\w+Batches(?:\.from_args)?\(", port.after) is None:
        raise InputError("neither a script that tpu-port can port nor a port", path)
    if port.status in ("unsupported", "error"):
        raise InputError(f"can't be ported ({port.status})", path, fix="tpu-port FILE says why")
    return port


def applied(text: str, plan: Plan) -> str:
    """The port with the plan's best candidate written in. InputError names what was not found where it should be."""
    text = EARLIER.sub("", text)
    for start, end, new in sorted(edits_in(text, plan), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def applied_to(port: Port, plan: Plan) -> bytes:
    """The port's file, a script's or a notebook's, with the plan written in. InputError as `applied`."""
    if port.notebook is None:
        return applied(port.after, plan).encode()
    notebook = read_notebook(port.data, port.path)
    earlier = [(found.start(), found.end(), "") for found in EARLIER.finditer(notebook.text)]
    notebook = read_notebook(notebook.written(_as_edits(earlier)).encode(), port.path)
    return notebook.written(_as_edits(edits_in(notebook.text, plan))).encode()


def _as_edits(edits: list[tuple[int, int, str]]) -> list[Edit]:
    return [Edit(start, end, new, "plan", "the plan's", 0, 0) for start, end, new in edits]


def edits_in(text: str, plan: Plan) -> list[tuple[int, int, str]]:
    """Where in a port's text the plan's best candidate goes: start, end and new text. InputError as `applied`."""
    best, where = plan.best, plan.slice
    if best is None:
        raise InputError(f"nothing fits {where.name}", fix="take a larger slice, or --seq-len")
    candidate = best.candidate
    mesh = MESH.search(text)
    batches = BATCHES.search(text)
    told = _arguments(plan)
    if mesh is None or (batches is None and told):
        what = (
            'jax.make_mesh((...), ("fsdp", "tp"), ...)'
            if mesh is None
            else "rt.SFTBatches(dataset, tokenizer, mesh, ...)"
        )
        raise InputError(f"the port has no {what} to write the plan into", fix="write the plan in by hand")
    if plan.way is not None and batches is not None and not batches[0].startswith("rt.SFTBatches"):
        raise InputError(
            f"{batches[0].partition('(')[0]} takes rows as the script's own code makes them: no buckets, no packing",
            fix="leave out --lengths",
        )
    by = best.how if not best.compiled_layers else f"{best.how}, {' and '.join(map(str, best.compiled_layers))} layers"
    by = "the formula" if best.how == "formula" else f"XLA ({by})"
    comment = (
        f"# tpu-port plan for {where.name}: {best.peak / GIB:.1f} of {where.hbm / GIB:.0f} GiB, "
        f"{plan.step_seconds:.3f} s a step by {by}\n"
    )
    line = text.rfind("\n", 0, mesh.start()) + 1
    indent = text[line : len(text) - len(text[line:].lstrip(" \t"))]
    edits = [
        (line, line, indent + comment),
        (mesh.start(), mesh.end(), f"jax.make_mesh(({candidate.fsdp}, {candidate.tp}), "),
    ]
    if batches is not None and told:
        lines = "".join(f"{batches['indent']}{a},  # the plan's\n" for a in told)
        edits.append((batches.end(), batches.end(), lines))
    edits += _remat(text, candidate.remat)
    return edits + _query_block(text, candidate.query_block)


def _arguments(plan: Plan) -> list[str]:
    """What the batches are told: the rows (or pairs) of a micro-batch, buckets for them, or the shapes to pack into.

    Nothing where the loss compares the rows of the GPU run's micro-batches.
    """
    assert plan.best is not None
    if plan.step.own_batch is not None:
        return []
    if plan.way is None:
        return [f"micro_batch={plan.best.candidate.batch // plan.step.documents}"]
    rows = [] if plan.way.kind == "packing" else [f"micro_batch={plan.way.shapes[0][0]}"]
    return [*rows, *([plan.way.argument] if plan.way.argument else [])]


def unwritten(plan: Plan) -> str:
    """What of a plan `applied` doesn't write for the port's kind, and why; empty where it writes all."""
    if plan.step.own_batch is None:
        return ""
    return (
        f"Mesh, remat and blocks of attention are written. The loss of this {plan.step.kind} run compares the rows of "
        "a micro-batch, which the script's batch size makes."
    )


def _remat(text: str, wanted: bool) -> list[tuple[int, int, str]]:
    there = REMAT.search(text)
    if there is not None and not wanted:
        return [(there.start(), there.end(), "")]
    if there is None and wanted:
        made = _made(text)
        if made is None:
            raise InputError("the plan wants remat, and no rt.apply_lora(...) or rt.load_model(...) to put it after")
        name = made["model"]
        return [(made.end(), made.end(), f"{made['indent']}{name} = rt.remat({name})  # the plan's\n")]
    return []


def _made(text: str) -> re.Match[str] | None:
    """The statement that makes the model that trains, its adapters in: of several models the trainer's first."""
    trained = TRAINED.search(text)
    found = [match for pattern in (ADAPTED, LOADED) for match in pattern.finditer(text)]
    own = [match for match in found if trained is not None and match["model"] == trained[1]]
    return next(iter(own or found), None)


def _query_block(text: str, wanted: int) -> list[tuple[int, int, str]]:
    if not wanted or "rt.attend_in_blocks(" in text:
        return []
    made = _made(text)
    if made is None:
        fix = f"write `model = rt.attend_in_blocks(model, {wanted})` where the model is made, and plan again"
        raise InputError(
            "the plan wants attention in blocks, and no rt.load_model(...) to put it after was found", fix=fix
        )
    name = made["model"]
    line = f"{made['indent']}{name} = rt.attend_in_blocks({name}, {wanted})  # the plan's\n"
    return [(made.end(), made.end(), line)]

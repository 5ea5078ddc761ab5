"""Write a plan into a port: mesh, micro-batch, remat and blocks of attention, with a comment that gives the numbers."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import InputError
from ..front.port_file import port_file
from ..port import Options
from .plan import Plan
from .slices import GIB

MESH = re.compile(r"jax\.make_mesh\(\([^\n]*?\), (?=\(\"fsdp\", \"tp\"\))")
EARLIER = re.compile(
    r"^[ \t]*(?:# tpu-port plan for [^\n]*|micro_batch=[^\n]*,(?:  # the plan's)?"
    r"|(?:buckets|step_packing)=[^\n]*,  # the plan's|(\w+) = rt\.attend_in_blocks\(\1[^\n]*\)  # the plan's)\n",
    re.MULTILINE,
)
REMAT = re.compile(r"^[ \t]*(\w+) = rt\.remat\(\1\).*\n", re.MULTILINE)
BATCHES = re.compile(r"rt\.\w+Batches\(\n(?P<indent>[ \t]+)\S[^\n]*,\n(?P=indent)\S[^\n]*,\n(?P=indent)\w+,\n")
ADAPTED, LOADED = (
    re.compile(rf"^(?P<indent>[ \t]*)(?P<model>\w+) = rt\.{name}\((?:[^()]|\([^()]*\))*\)\n", re.MULTILINE)
    for name in ("apply_(?:lora|peft)", "load_model")
)


def port_text(path: Path) -> str:
    """The port of a source script, or the script itself when it is a port already. Nothing is written."""
    if not path.is_file():
        raise InputError("there is no such file", path)
    port = port_file(path, Options())
    if port.status == "unchanged" and re.search(r"rt\.\w+Batches\(", port.after) is None:
        raise InputError("neither a script that tpu-port can port nor a port", path)
    if port.status in ("unsupported", "error"):
        raise InputError(f"can't be ported ({port.status})", path, fix="tpu-port FILE says why")
    return port.after


def applied(text: str, plan: Plan) -> str:
    """The port with the plan's best candidate written in. InputError names what was not found where it should be."""
    best, where = plan.best, plan.slice
    if best is None:
        raise InputError(f"nothing fits {where.name}", fix="take a larger slice, or --seq-len")
    candidate = best.candidate
    text = EARLIER.sub("", text)
    mesh = MESH.search(text)
    batches = BATCHES.search(text)
    if mesh is None or batches is None:
        what = (
            'jax.make_mesh((...), ("fsdp", "tp"), ...)'
            if mesh is None
            else "rt.SFTBatches(dataset, tokenizer, mesh, ...)"
        )
        raise InputError(f"the port has no {what} to write the plan into", fix="write the plan in by hand")
    if plan.way is not None and not batches[0].startswith("rt.SFTBatches"):
        raise InputError(
            f"{batches[0].partition('(')[0]} takes rows as the script's own code makes them: no buckets, no packing",
            fix="leave out --lengths",
        )
    by = best.how if not best.compiled_layers else f"{best.how}, {' and '.join(map(str, best.compiled_layers))} layers"
    comment = (
        f"# tpu-port plan for {where.name}: {best.peak / GIB:.1f} of {where.hbm / GIB:.0f} GiB, "
        f"{plan.step_seconds:.3f} s a step by XLA ({by})\n"
    )
    line = text.rfind("\n", 0, mesh.start()) + 1
    indent = text[line : len(text) - len(text[line:].lstrip(" \t"))]
    edits = [
        (line, line, indent + comment),
        (mesh.start(), mesh.end(), f"jax.make_mesh(({candidate.fsdp}, {candidate.tp}), "),
        (batches.end(), batches.end(), "".join(f"{batches['indent']}{a},  # the plan's\n" for a in _arguments(plan))),
    ]
    edits += _remat(text, candidate.remat)
    edits += _query_block(text, candidate.query_block)
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _arguments(plan: Plan) -> list[str]:
    """What `rt.SFTBatches` is told: the rows of a micro-batch, buckets for them, or the shapes to pack into."""
    assert plan.best is not None
    if plan.way is None:
        return [f"micro_batch={plan.best.candidate.batch}"]
    rows = [] if plan.way.kind == "packing" else [f"micro_batch={plan.way.shapes[0][0]}"]
    return [*rows, *([plan.way.argument] if plan.way.argument else [])]


def _remat(text: str, wanted: bool) -> list[tuple[int, int, str]]:
    there = REMAT.search(text)
    if there is not None and not wanted:
        return [(there.start(), there.end(), "")]
    if there is None and wanted:
        adapted = ADAPTED.search(text)
        if adapted is None:
            raise InputError("the plan wants remat, and no rt.apply_lora(...) to put it after was found")
        name = adapted["model"]
        return [(adapted.end(), adapted.end(), f"{adapted['indent']}{name} = rt.remat({name})  # the plan's\n")]
    return []


def _query_block(text: str, wanted: int) -> list[tuple[int, int, str]]:
    if not wanted or "rt.attend_in_blocks(" in text:
        return []
    made = ADAPTED.search(text) or LOADED.search(text)
    if made is None:
        fix = f"write `model = rt.attend_in_blocks(model, {wanted})` where the model is made, and plan again"
        raise InputError(
            "the plan wants attention in blocks, and no rt.load_model(...) to put it after was found", fix=fix
        )
    name = made["model"]
    line = f"{made['indent']}{name} = rt.attend_in_blocks({name}, {wanted})  # the plan's\n"
    return [(made.end(), made.end(), line)]

"""One step on one slice: compiled where there is a compiler, else estimated; with advice when it doesn't fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .compile import Request, Step, compile_step, libtpu_problem
from .memory import Candidate, Estimate, estimate
from .plan import candidates, fitting_meshes, usable
from .slices import GIB


@dataclass(frozen=True)
class Found:
    """`note` says why nothing was compiled; `advice` is the cheapest change that fits, when the step doesn't."""

    step: Step
    formula: Estimate
    note: str = ""
    advice: str = ""


def compile_or_estimate(request: Request, *, say: Callable[[str], None], timeout: float = 3600) -> Found:
    """Compile `request`, or trace it and estimate when libtpu is missing or doesn't match."""
    note = libtpu_problem()
    step = compile_step(replace(request, compile=not note), say, timeout=timeout)
    asked = Candidate(step.mesh["fsdp"], step.mesh["tp"], step.batch_rows, step.length, step.remat, step.query_block)
    formula = estimate(step, asked, request.slice, step.layers)
    short = step.short_of_memory or (formula.peak > request.slice.hbm if step.memory is None else 0)
    return Found(step, formula, note, _advice(request, step, asked) if short else "")


def _advice(request: Request, step: Step, asked: Candidate) -> str:
    """The candidate that fits by formula and differs least: fewest changes first, then the fastest."""
    meshes, _ = fitting_meshes(step, request.slice)
    fitting = []
    for other in candidates(step, meshes, None):
        found = estimate(step, other, request.slice, step.layers)
        if found.peak <= usable(request.slice):
            changes: list[str] = [
                f"--remat {'decoder' if other.remat else 'none'}" if other.remat != asked.remat else "",
                f"--batch {other.batch}" if other.batch != asked.batch else "",
                f"--mesh fsdp={other.fsdp},tp={other.tp}" if other.mesh != asked.mesh else "",
            ]
            said = [change for change in changes if change]
            fitting.append((len(said), found.seconds / other.batch, " ".join(said), found.peak))
    if not fitting:
        return "no mesh, remat or micro-batch fits this slice by formula: take a larger slice, or a smaller --seq-len"
    _, _, change, peak = min(fitting)
    return f"what should fit: {change} ({peak / GIB:.1f} GiB by formula)"

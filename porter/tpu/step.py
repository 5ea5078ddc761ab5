"""One step on one slice: compiled where there is a compiler, else estimated; with advice when it doesn't fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .compile import Request, compile_step, libtpu_problem
from .memory import Candidate, Estimate, estimate
from .passes import PassFigure, estimate_passes
from .plan import by_formula, candidates, fitting_meshes
from .results import Step
from .slices import GIB


@dataclass(frozen=True)
class Found:
    """`passes`: by formula, what the run computes beside the step. `note` says why nothing was compiled; `lacking`:
    which program lacks how many bytes ("", 0 where all fit); `advice` is the cheapest change that fits, else."""

    step: Step
    formula: Estimate
    passes: tuple[PassFigure, ...] = ()
    note: str = ""
    lacking: tuple[str, int] = ("", 0)
    advice: str = ""


def compile_or_estimate(request: Request, *, say: Callable[[str], None], timeout: float = 3600) -> Found:
    """Compile `request`, or trace it and estimate when libtpu is missing or doesn't match."""
    note, hbm = libtpu_problem(), request.slice.hbm
    step = compile_step(replace(request, compile=not note), say, timeout=timeout)
    asked = Candidate(step.mesh["fsdp"], step.mesh["tp"], step.batch_rows, step.length, step.remat, step.query_block)
    formula = estimate(step, asked, request.slice, step.layers)
    passes = tuple(estimate_passes(step, asked, step.micro_batches, request.slice, step.layers))
    lacking = step.shortage(hbm)
    if note:
        name, peak = max(
            [("training", formula.peak), *((one.name, one.peak) for one in passes)], key=lambda one: one[1]
        )
        lacking = (name, peak - hbm) if peak > hbm else ("", 0)
    return Found(step, formula, passes, note, lacking, _advice(request, step, asked) if lacking[1] else "")


def _advice(request: Request, step: Step, asked: Candidate) -> str:
    """The candidate that fits by formula and differs least: fewest changes first, then the fastest."""
    meshes, _ = fitting_meshes(step, request.slice)
    fitting = []
    for other in candidates(step, meshes, None):
        found = by_formula(step, other, request.slice, step.layers)
        if not found.why_not:
            changes: list[str] = [
                f"--remat {'decoder' if other.remat else 'none'}" if other.remat != asked.remat else "",
                f"--batch {other.batch}" if other.batch != asked.batch and not step.own_batch else "",
                f"--mesh fsdp={other.fsdp},tp={other.tp}" if other.mesh != asked.mesh else "",
            ]
            said = [change for change in changes if change]
            if not said:  # what was asked for, and doesn't fit, whatever the formula says
                continue
            fitting.append((len(said), found.step_seconds, " ".join(said), found.peak))
    if not fitting and step.own_batch is not None:
        shorter = "a shorter --completion-len" if any(one.samples for one in step.passes) else "a smaller --seq-len"
        return (
            "no mesh or remat fits this slice by formula: take a larger slice, a smaller batch with more accumulation "
            f"(per_device_train_batch_size), or {shorter}"
        )
    if not fitting:
        return "no mesh, remat or micro-batch fits this slice by formula: take a larger slice, or a smaller --seq-len"
    _, _, change, peak = min(fitting)
    return f"what should fit: {change} ({peak / GIB:.1f} GiB by formula)"

"""Planning by formula: divisibility, order, memory, cost. No compiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import porter.tpu.plan as planning
from porter.runtime.families import find_family
from porter.tpu.compile import Memory, Request, Step
from porter.tpu.memory import Candidate, estimate
from porter.tpu.slices import GIB, slice_named

V5P = slice_named("v5p-8")


def gemma4(**changes: Any) -> Step:
    """A trace of the first six layers of Gemma 4 31B with LoRA r=64, as google-tunix 0.1.7 has them."""
    family = find_family(hub_id="google/gemma-4-31B-it")
    assert family is not None
    sizes = family.known_sizes("google/gemma-4-31B-it")
    assert sizes is not None
    step = Step(
        devices=1,
        mesh={"fsdp": 1, "tp": 1},
        batch_rows=2,
        length=3072,
        micro_batches=8,
        effective_rows=16,
        steps=625,
        remat=True,
        packing=False,
        layers=6,
        all_layers=60,
        period=6,
        parameters=4338096902,
        trainable=51593216,
        lora_tensors=72,
        model="google/gemma-4-31B-it",
        family="gemma4",
        sizes=sizes,
        state={
            "weights": {"fsdp tp": 8675917824, "tp": 275968, "": 12},
            "adapters": {"tp": 149946368, "fsdp": 56426496},
            "optimizer": {"tp": 449839104, "fsdp": 169279488, "": 20},
        },
    )
    return replace(step, **changes)


@pytest.mark.parametrize(
    ("candidate", "layers", "peak"),
    [
        (Candidate(4, 1, 4, 1024, False), 6, 9.416),
        (Candidate(4, 1, 4, 1024, False), 12, 13.646),
        (Candidate(4, 1, 8, 1024, False), 6, 13.97),
        (Candidate(4, 1, 4, 2048, False), 6, 13.89),
        (Candidate(1, 4, 2, 1024, False), 6, 5.11),
    ],
)
def test_the_formula_is_within_15_percent_of_xla(candidate: Candidate, layers: int, peak: float) -> None:
    # GiB that libtpu 0.0.42.1 gave for v5p:2x2x1, see docs/plan.md
    assert estimate(gemma4(), candidate, V5P, layers).peak / GIB == pytest.approx(peak, rel=0.15)


def test_flops_are_xlas() -> None:
    found = estimate(gemma4(), Candidate(4, 1, 4, 1024, False), V5P, 6)
    assert found.flops == pytest.approx(18.66e12, rel=0.03)  # libtpu 0.0.42.1
    found = estimate(gemma4(), Candidate(1, 4, 1, 3072, True), V5P, 6)
    assert found.flops == pytest.approx(20.20e12, rel=0.03)


def test_a_mesh_that_divides_nothing_is_dropped_with_the_tensor() -> None:
    meshes, dropped = planning.fitting_meshes(gemma4(), slice_named("v5p-16"))
    assert (1, 8) not in meshes and (8, 1) in meshes
    assert dict(dropped)["fsdp=1,tp=8"].startswith("layers/5/attn/k_einsum")


def test_candidates_keep_the_effective_batch() -> None:
    step = gemma4()
    for candidate in planning.candidates(step, [(4, 1), (1, 4)], None):
        assert candidate.batch % candidate.fsdp == 0 and candidate.batch <= step.effective_rows
    assert all(not c.remat for c in planning.candidates(step, [(4, 1)], None, "none"))
    assert {c.batch for c in planning.candidates(step, [(4, 1)], 8)} == {8}


def test_the_plan_by_formula_says_so_and_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: gemma4())
    found = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=0)
    assert found.best is not None and found.best.how == "formula"
    assert found.best.peak <= planning.usable(V5P)
    assert [row for row in found.rows if row.why_not] and all("GiB over" in r.why_not for r in found.rows if r.why_not)
    assert {cost.price.kind for cost in found.costs} == {"on demand", "spot"}
    assert all(cost.usd[0] < cost.usd[1] for cost in found.costs)
    own = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=0, price=1.0)
    assert [cost.price.usd for cost in own.costs] == [1.0]


def test_a_slice_that_is_too_small_has_no_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: gemma4())
    found = planning.plan(Request(script=Path("port.py"), slice=slice_named("v5e-4")), compiled=0)
    assert found.best is None and found.costs == ()


def test_compiled_candidates_are_extrapolated_and_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def compile_step(request: Request, *args: Any, **kwargs: Any) -> Step:
        if not request.compile:
            return gemma4()
        asked.append(request)
        assert request.mesh is not None
        layers = request.layers or 60
        slow = 10 if request.mesh["tp"] == 4 else 1  # what the formula thinks fastest isn't
        memory = Memory((2 + layers) * GIB // 2, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        return gemma4(layers=layers, memory=memory, seconds=(0.1 + 0.01 * layers) * slow)

    monkeypatch.setattr(planning, "compile_step", compile_step)
    monkeypatch.setattr(planning, "libtpu_problem", lambda: "")
    found = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=2)
    assert found.best is not None and found.best.how == "extrapolated" and found.best.compiled_layers == (6, 12)
    assert found.best.candidate.tp < 4
    assert (found.best.peak, found.best.seconds) == (31 * GIB, pytest.approx(0.7))
    assert {request.layers for request in asked} == {6, 12}


def test_small_models_and_shared_keys_are_compiled_whole() -> None:
    assert planning.layer_counts(gemma4()) == (6, 12)
    assert planning.layer_counts(gemma4(all_layers=12)) == (12,)
    shared = gemma4(sizes={**gemma4().sizes, "kv_shared": 20})
    assert planning.layer_counts(shared) == (60,)

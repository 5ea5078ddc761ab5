"""Kinds of training beside supervised: what their runs compute beside the step, by formula. No compiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import jax
import pytest

import porter.tpu.plan as planning
from porter.errors import InputError
from porter.runtime.batches.arrays import divisible
from porter.runtime.facts.families import find_family
from porter.runtime.preferences.preference_batches import PreferenceBatches
from porter.tpu.apply import applied, unwritten
from porter.tpu.compile import Request
from porter.tpu.memory import Candidate, estimate, resident
from porter.tpu.passes import cache_bytes, estimate_passes, runs
from porter.tpu.results import Memory, Pass, Step, step_of
from porter.tpu.slices import GIB, link_bandwidth, slice_named
from porter.tpu.tracing.row_lengths import RowLengths

V6E = slice_named("v6e-4")
CASES = Path(__file__).parents[2] / "rules" / "trl" / "cases"


def qwen3(kind: str, **changes: Any) -> Step:
    """A trace of two layers of Qwen3-0.6B with LoRA r=16, as rules/trl/cases/grpo has it."""
    family = find_family(hub_id="Qwen/Qwen3-0.6B")
    assert family is not None
    sizes = family.known_sizes("Qwen/Qwen3-0.6B")
    assert sizes is not None
    weights = {"fsdp tp": 374079488, "tp": 11264}
    adapters = {"fsdp": 917504, "tp": 1966080}
    step = Step(
        devices=4,
        mesh={"fsdp": 4, "tp": 1},
        kind=kind,
        batch_rows=8,
        length=512,
        micro_batches=4,
        effective_rows=32,
        steps=500,
        remat=True,
        packing=False,
        layers=2,
        all_layers=28,
        period=1,
        parameters=187045376,
        trainable=720896,
        lora_tensors=28,
        model="Qwen/Qwen3-0.6B",
        family="qwen3",
        sizes=sizes,
        weights_returned=False,
        state={
            "weights": weights,
            "adapters": adapters,
            "optimizer": {"fsdp": 2752512, "tp": 5898240, "": 20},
        },
    )
    return replace(step, **changes)


def beside(step: Step, name: str, **changes: Any) -> Pass:
    one = Pass(
        name, step.model, True, 8, 512, 4, step.layers, step.all_layers, step.sizes, step.state["weights"], **changes
    )
    return replace(one, rows=changes.get("count", 8))


def grpo(prompt: int = 256, completion: int = 256) -> Step:
    step = qwen3("GRPO", length=prompt + completion)
    sampling = beside(step, "sampling", prompt=prompt, completion=completion, count=32, goes=1.0)
    sampling = replace(sampling, rows=32, times=1.0)
    logps = beside(step, "log-probabilities", completion=completion, count=32, goes=1.0)
    return replace(step, passes=(sampling, logps), state={**step.state, "reference": step.state["adapters"]})


# GiB that libtpu 0.0.42.1 gave for Qwen3-0.6B on v6e-4, with least effort: docs/plan.md.
@pytest.mark.parametrize(
    ("prompt", "layers", "peaks"),
    [(256, 2, (0.470, 0.428, 0.462)), (256, 8, (0.562, 0.609, 0.536)), (1024, 2, (0.997, 0.817, 0.467))],
)
def test_the_formulas_memory_of_grpo_is_close_to_xlas(
    prompt: int, layers: int, peaks: tuple[float, float, float]
) -> None:
    step, wanted = grpo(prompt, prompt), Candidate(4, 1, 8, 2 * prompt, True)
    found = [estimate(step, wanted, V6E, layers).peak]
    found += [one.peak for one in estimate_passes(step, wanted, 4, V6E, layers)]
    assert [size / GIB for size in found] == pytest.approx(peaks, rel=0.2)
    if layers == prompt // 128:
        assert estimate(step, Candidate(1, 4, 8, 512, True), V6E, 2).peak / GIB == pytest.approx(0.322, rel=0.1)


def test_the_formulas_memory_of_pairs_and_distillation_is_close_to_xlas() -> None:
    dpo = qwen3("DPO", documents=2)
    assert estimate(dpo, Candidate(4, 1, 4, 768, True), V6E, 2).peak / GIB == pytest.approx(0.829, rel=0.1)
    assert estimate(qwen3("ORPO"), Candidate(2, 2, 16, 512, True), V6E, 2).peak / GIB == pytest.approx(0.836, rel=0.1)
    assert estimate(qwen3("KTO"), Candidate(4, 1, 32, 256, True), V6E, 2).peak / GIB == pytest.approx(1.567, rel=0.1)
    apart = qwen3("DPO", state=dpo.state)
    apart = replace(apart, passes=(replace(beside(apart, "reference"), own=False, model="other"),))
    whole = estimate(qwen3("DPO"), Candidate(4, 1, 16, 512, True), V6E, 2).logits
    assert estimate(apart, Candidate(4, 1, 16, 512, True), V6E, 2).logits < 0.7 * whole  # no reference's in the step
    assert estimate(qwen3("SFT"), Candidate(4, 1, 4, 2048, True), V6E, 2).peak / GIB == pytest.approx(0.986, rel=0.1)
    gkd = qwen3("GKD")
    teacher = beside(gkd, "teacher")
    teacher = replace(teacher, own=False, model="Qwen/Qwen3-1.7B", weights={"fsdp tp": 823656448, "tp": 21504})
    family = find_family(hub_id="Qwen/Qwen3-1.7B")
    assert family is not None
    teacher = replace(teacher, sizes=family.known_sizes("Qwen/Qwen3-1.7B") or {})
    gkd = replace(gkd, passes=(teacher,))
    wanted = Candidate(4, 1, 4, 512, True)
    assert estimate(gkd, wanted, V6E, 2).peak / GIB == pytest.approx(1.308, rel=0.1)
    (found,) = estimate_passes(gkd, wanted, 2, V6E, 2)
    assert found.peak / GIB == pytest.approx(1.158, rel=0.1)
    assert resident(gkd, wanted, 2) == pytest.approx(205935616, rel=0.01)


def test_keys_and_values_are_counted_by_hand() -> None:
    sizes = qwen3("GRPO").sizes
    wanted = Candidate(4, 1, 8, 512, True)
    assert cache_bytes(sizes, 8, 512, 28, wanted) == 28 * 2 * 8 * 512 * 8 * 128 * 2
    assert cache_bytes(sizes, 32, 512, 2, Candidate(1, 4, 8, 512, True)) == 2 * 2 * 32 * 512 * 2 * 128 * 2
    assert (
        cache_bytes(sizes, 1, 1, 1, Candidate(1, 16, 8, 512, True)) == 2 * 8 * 128 * 2
    )  # heads that tp doesn't divide


def test_a_step_has_the_references_pass_in_it_or_beside_it() -> None:
    wanted = Candidate(4, 1, 8, 512, False)
    orpo, dpo = (estimate(qwen3(kind), wanted, V6E) for kind in ("ORPO", "DPO"))
    assert dpo.flops == pytest.approx(1.5 * orpo.flops, rel=0.05)  # forward; forward and backward
    own = qwen3("DPO")
    apart = replace(own, passes=(replace(beside(own, "reference"), own=False, model="other"),))
    found = estimate(apart, wanted, V6E)
    assert found.flops == pytest.approx(orpo.flops, rel=0.001)
    assert found.peak - orpo.peak == found.resident == pytest.approx(orpo.weights, rel=0.01)


def test_sampling_takes_what_gathering_the_weights_takes() -> None:
    step = grpo()
    fsdp, tp = Candidate(4, 1, 8, 512, True), Candidate(1, 4, 8, 512, True)
    slow, fast = (estimate_passes(step, wanted, 4, V6E)[0].seconds for wanted in (fsdp, tp))
    weights = sum(step.state["weights"].values())
    assert slow > 255 * weights * 3 / 4 / link_bandwidth(V6E) and slow > 3 * fast


def test_a_turn_of_the_loop_takes_at_least_what_its_collectives_take() -> None:
    step = grpo()
    found = step.to_dict()
    gathers = {"all-gather": {"count": 3, "bytes": 10**9}}
    found["passes"][0].update(token_collectives=gathers, token_seconds=1e-4)
    found.pop("cached")
    sampling, logps = step_of(found, V6E, cached=False).passes
    assert sampling.token_seconds == pytest.approx(10**9 / link_bandwidth(V6E)) and logps.token_seconds == 0
    assert sampling.run_seconds == pytest.approx(254 * sampling.token_seconds)  # one of 255 is in the program's own


@pytest.mark.parametrize("fsdp", [1, 2, 4, 8])
@pytest.mark.parametrize("pairs", [1, 3, 8])
def test_micro_batches_are_those_that_the_runtime_makes(fsdp: int, pairs: int) -> None:
    mesh: Any = jax.sharding.AbstractMesh((fsdp, 8 // fsdp), ("fsdp", "tp"))
    batches = object.__new__(PreferenceBatches)
    batches._mesh = mesh
    grouped = qwen3("KTO", own_batch={"rows": 2 * pairs, "micro_batches": 3}, documents=2, effective_rows=2 * pairs * 3)
    (found,) = planning.candidates(grouped, [(fsdp, 8 // fsdp)], None, "none")
    assert found.batch == batches._divisible(pairs)
    assert planning.micro_batches_of(grouped, found) == 3
    dpo = replace(grouped, kind="DPO", own_batch=None)
    every = planning.candidates(dpo, [(fsdp, 8 // fsdp)], None, "none")
    assert every[0].batch == batches._divisible(1) and every[-1].batch <= batches._divisible(3 * pairs)
    for found in every:
        assert batches._divisible(found.batch // 2) == found.batch, "as micro_batch= makes it"
        assert planning.micro_batches_of(dpo, found) == -(-pairs * 3 // (found.batch // 2))
    for found in planning.candidates(qwen3("GRPO", effective_rows=3 * pairs), [(fsdp, 8 // fsdp)], None, "none"):
        assert divisible(found.batch, mesh) == found.batch


def test_runs_of_a_pass_follow_the_mesh() -> None:
    sampling, logps = grpo().passes
    sampling, logps = replace(sampling, count=30), replace(logps, count=30, goes=2.0)
    wanted = Candidate(8, 1, 16, 512, True)
    assert runs(sampling, wanted, 4) == (32, 1.0)
    assert runs(logps, wanted, 4) == (16, 4.0)
    assert runs(beside(qwen3("DPO"), "reference"), wanted, 4) == (16, 4)


def test_a_plan_ranks_by_training_and_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: grpo(256, 1024))
    found = planning.plan(Request(script=Path("port.py"), slice=V6E), compiled=0)
    assert found.best is not None
    for row in found.rows:
        assert row.step_seconds == pytest.approx(row.seconds * row.micro_batches + sum(p.seconds for p in row.passes))
        assert row.peak == max(row.estimate.peak, *(p.peak for p in row.passes))
    fitting = [row.step_seconds for row in found.rows if not row.why_not]
    assert fitting == sorted(fitting) and found.costs[0].hours[0] == pytest.approx(fitting[0] * 500 / 3600)
    many = grpo(256, 1024)
    many = replace(many, passes=(replace(many.passes[0], count=4096), many.passes[1]))
    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: many)
    found = planning.plan(Request(script=Path("port.py"), slice=V6E), compiled=0)
    assert found.best is None and all(row.estimate.peak < V6E.hbm for row in found.rows), "sampling alone doesn't fit"
    with pytest.raises(InputError, match=r"--lengths: buckets and packing .* this is one of GRPO"):
        planning.plan(Request(script=Path("port.py"), slice=V6E), compiled=0, lengths=[100])


def compiled_at(request: Request, short: str = "") -> Step:
    """Two GiB and one a layer for training, ten and half a one for sampling; of a pass that is `short`, none."""
    step, layers = grpo(), request.layers or 28
    gib = {"sampling": 10 + layers / 2, "log-probabilities": 1.0}
    passes = [
        replace(one, layers=layers, memory=Memory(int(gib[one.name] * GIB)), resident=GIB, seconds=0.01 * layers)
        if one.name != short
        else replace(one, layers=layers, short_of_memory=3 * GIB, wanted_memory=40 * GIB)
        for one in step.passes
    ]
    memory = Memory((2 + layers) * GIB // 2)
    return replace(step, layers=layers, memory=memory, seconds=0.1, passes=tuple(passes), resident=GIB // 4)


def test_compiled_passes_are_extrapolated_each_to_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def compile_steps(requests: list[Request], *args: Any, **kwargs: Any) -> list[Step]:
        asked.extend(requests)
        return [compiled_at(request) for request in requests]

    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: grpo())
    monkeypatch.setattr(planning, "compile_steps", compile_steps)
    monkeypatch.setattr(planning, "libtpu_problem", lambda: "")
    request = Request(script=Path("port.py"), slice=V6E, prompt_len=256)
    best = planning.plan(request, compiled=1).best
    assert best is not None and best.compiled_layers == (2, 4)
    rows, count = best.candidate.batch, best.micro_batches
    assert [(one.batch, one.seq_len, one.prompt_len) for one in asked] == [(rows, None, 256)] * 2 and rows * count == 32
    sampling, logps = best.passes
    assert (sampling.peak, logps.peak) == (25 * GIB, 2 * GIB)  # 10 + 28 / 2, and what lies there besides
    assert best.peak == max(sampling.peak, 15 * GIB + GIB // 4)
    assert sampling.seconds == pytest.approx(0.28) and logps.seconds == pytest.approx(4 * 0.28)
    assert best.step_seconds == pytest.approx(0.1 * count + 5 * 0.28)


def test_a_candidate_whose_sampling_lacks_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "compile_step", lambda *a, **k: grpo())
    monkeypatch.setattr(planning, "compile_steps", lambda asked, *a, **k: [compiled_at(r, "sampling") for r in asked])
    monkeypatch.setattr(planning, "libtpu_problem", lambda: "")
    found = planning.plan(Request(script=Path("port.py"), slice=V6E), compiled=1)
    assert "XLA: sampling: 3.0 GiB more than the chip has, at 2 layers" in {row.why_not for row in found.rows}


def test_a_mesh_has_to_divide_the_teacher_too() -> None:
    step = qwen3("GKD")
    teacher = replace(beside(step, "teacher"), own=False, model="other", family="qwen3")
    teacher = replace(teacher, sizes={**step.sizes, "kv_heads": 2})
    meshes, dropped = planning.fitting_meshes(replace(step, passes=(teacher,)), V6E)
    assert meshes == [(4, 1), (2, 2)] and len(dropped) == 1
    assert "other: " in dropped[0][1] and "kv_heads = 2 does not divide by tp = 4" in dropped[0][1]
    assert planning.fitting_meshes(step, V6E) == ([(4, 1), (2, 2), (1, 4)], [])


def test_passes_that_lack_memory_or_lie_over_it_are_named() -> None:
    step, hbm = grpo(), 10 * GIB
    sampling, logps = step.passes
    fits = replace(step, memory=Memory(9 * GIB), resident=GIB // 2)
    assert fits.shortage(hbm) == ("", 0) and fits.peak == fits.training_peak == 9 * GIB + GIB // 2
    over = replace(fits, passes=(replace(sampling, memory=Memory(8 * GIB), resident=3 * GIB), logps))
    assert over.shortage(hbm) == ("sampling", GIB) and over.peak == 11 * GIB
    short = replace(fits, passes=(replace(sampling, short_of_memory=2 * GIB, wanted_memory=12 * GIB), logps))
    assert short.shortage(hbm) == ("sampling", 2 * GIB)


def test_apply_writes_what_belongs_to_the_kind() -> None:
    text = (CASES / "grpo" / "after.py").read_text()
    step = grpo()
    row = planning.by_formula(step, Candidate(1, 4, 8, 1024, False, 512), V6E)
    plan = planning.Plan(V6E, step, (row,), (), ())
    once = applied(text, plan)
    compile(once, "grpo.py", "exec")
    assert "jax.make_mesh((1, 4), " in once and "rt.remat(" not in once
    assert "    mesh,\n    model,\n    micro_batch=8,  # the plan's\n" in once and applied(once, plan) == once
    assert once.index("rt.attend_in_blocks(model, 512)") < once.index("rt.GRPOBatches(")
    assert unwritten(plan) == ""
    grouped = replace(plan, step=replace(step, kind="KTO", own_batch={"rows": 8, "micro_batches": 4}))
    assert "micro_batch=" not in applied(text, grouped)
    assert "The loss of this KTO run compares the rows of a micro-batch" in unwritten(grouped)


def test_apply_takes_the_model_that_trains_not_its_reference() -> None:
    text = (CASES / "dpo_reference" / "after.py").read_text()
    step = qwen3("DPO", documents=2)
    row = planning.by_formula(step, Candidate(4, 1, 16, 1024, True, 512), V6E)
    bare = text.replace("    model = rt.remat(model)", "    # model = rt.remat(model)")
    once = applied(bare, planning.Plan(V6E, step, (row,), (), ()))
    compile(once, "dpo.py", "exec")
    assert "micro_batch=8,  # the plan's\n" in once, "pairs"
    assert "    model = rt.attend_in_blocks(model, 512)  # the plan's\n" in once
    assert "    model = rt.remat(model)  # the plan's\n" in once
    assert once.index("me/qwen2.5-sft") < once.index("rt.remat(model)  # the plan's")


def test_distillation_is_told_its_micro_batch() -> None:
    text = (CASES / "gkd" / "after.py").read_text()
    step = qwen3("GKD")
    row = planning.by_formula(step, Candidate(4, 1, 8, 512, True), V6E)
    assert "    micro_batch=8,  # the plan's\n" in applied(text, planning.Plan(V6E, step, (row,), (), ()))


class Refused(Exception):
    pass


def refuse(line: str) -> NoReturn:
    raise Refused(line)


def test_lengths_come_from_options_then_from_the_run() -> None:
    nothing = RowLengths({}, refuse)
    assert (nothing.row(512), nothing.completion(64, "max_new_tokens"), nothing.prompt(32, 64)) == (512, 64, 32)
    assert nothing.prompt_within(512, 64, None) == 512 and nothing.prompt_within(512, 64, 512) == 448
    asked = RowLengths({"seq_len": 100, "prompt_len": 20, "completion_len": 30}, refuse)
    assert (asked.row(512), asked.completion(64, "x"), asked.prompt(32, 30)) == (100, 30, 20)
    assert asked.prompt_within(512, 64, 512) == 20
    assert RowLengths({"seq_len": 100}, refuse).prompt(None, 30) == 70


@pytest.mark.parametrize("unknown", [None, True, object()])
def test_lengths_that_nobody_knows_are_asked_for(unknown: Any) -> None:
    nothing = RowLengths({}, refuse)
    with pytest.raises(Refused, match="give --seq-len N"):
        nothing.row(unknown)
    with pytest.raises(Refused, match="max_completion_length is not known before the run: give --completion-len N"):
        nothing.completion(unknown, "max_completion_length")
    with pytest.raises(Refused, match="give --prompt-len N"):
        nothing.prompt(unknown, 64)
    with pytest.raises(Refused, match="--seq-len 64 leaves no token for the prompt"):
        RowLengths({"seq_len": 64}, refuse).prompt(None, 64)

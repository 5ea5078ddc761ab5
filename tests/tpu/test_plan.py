"""Planning by formula: divisibility, order, memory, cost. No compiler."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import porter.tpu.plan as planning
from porter.errors import InputError
from porter.runtime.facts.families import find_family
from porter.tpu.apply import applied, applied_to, port_of
from porter.tpu.batching import Batching
from porter.tpu.compile import CompileFailed, Request
from porter.tpu.lengths import lognormal, read_lengths
from porter.tpu.memory import Candidate, estimate
from porter.tpu.results import Memory, Step
from porter.tpu.slices import GIB, slice_named
from tests.notebooks import saved

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
        sizes={**sizes, "window": 1024},
        state={
            "weights": {"fsdp tp": 8675917824, "tp": 275968, "": 12},
            "adapters": {"tp": 149946368, "fsdp": 56426496},
            "optimizer": {"tp": 449839104, "fsdp": 169279488, "": 20},
        },
    )
    return replace(step, **changes)


# GiB and seconds that libtpu 0.0.42.1 gave for Gemma 4 31B on v5p:2x2x1, see docs/plan.md.
@pytest.mark.parametrize(
    ("candidate", "layers", "peak"),
    [
        (Candidate(4, 1, 4, 1024, False), 6, 7.70),
        (Candidate(4, 1, 4, 1024, False), 12, 11.60),
        (Candidate(4, 1, 4, 2048, False), 6, 10.83),
        (Candidate(4, 1, 4, 2048, False), 12, 17.33),
        (Candidate(1, 4, 3, 2048, False), 6, 8.02),
        (Candidate(1, 4, 3, 2048, False), 12, 14.51),
        (Candidate(1, 4, 2, 3072, False), 6, 9.17),
        (Candidate(1, 4, 2, 3072, False), 12, 16.79),
        (Candidate(1, 4, 2, 2048, True), 6, 3.20),
        (Candidate(1, 4, 1, 2688, False, 512), 12, 7.22),
        (Candidate(1, 4, 2, 1536, False, 512), 12, 8.05),
        (Candidate(1, 4, 3, 2048, False, 512), 6, 6.79),
        (Candidate(1, 4, 3, 2048, False, 512), 12, 12.07),
        (Candidate(1, 4, 2, 3072, False, 512), 12, 12.27),
    ],
)
def test_the_formulas_memory_is_close_to_xlas(candidate: Candidate, layers: int, peak: float) -> None:
    found = estimate(gemma4(weights_returned=False), candidate, V5P, layers)
    assert found.peak / GIB == pytest.approx(peak, rel=0.15)


@pytest.mark.parametrize(
    ("candidate", "layers", "returned", "seconds"),
    [
        (Candidate(4, 1, 4, 1024, False), 6, True, 0.0747),
        (Candidate(4, 1, 4, 1024, False), 12, True, 0.1327),
        (Candidate(4, 1, 8, 1024, False), 6, True, 0.1274),
        (Candidate(4, 1, 4, 2048, False), 6, True, 0.1321),
        (Candidate(1, 4, 2, 1024, False), 6, True, 0.0369),
        (Candidate(1, 4, 4, 2048, False), 6, True, 0.1272),
        (Candidate(1, 4, 4, 2048, False), 1, False, 0.0443),
        (Candidate(1, 4, 3, 3072, False), 6, False, 0.1378),
        (Candidate(1, 4, 3, 2048, False), 12, False, 0.1618),
        (Candidate(1, 4, 1, 3072, True), 12, True, 0.1336),
    ],
)
def test_the_formulas_seconds_are_close_to_xlas(
    candidate: Candidate, layers: int, returned: bool, seconds: float
) -> None:
    found = estimate(gemma4(weights_returned=returned), candidate, V5P, layers)
    assert found.seconds == pytest.approx(seconds, rel=0.08)


def test_queries_in_blocks_have_the_keys_up_to_their_end() -> None:
    blocks = Candidate(1, 4, 3, 2048, False, 512)
    assert blocks.keys() == (512 + 1024 + 1536 + 2048) / 4
    assert blocks.keys(1024) == (512 + 1024 + 1535 + 1535) / 4
    assert replace(blocks, length=1100).keys() == (512 * 512 + 512 * 1024 + 76 * 1100) / 1100  # the last is shorter
    assert replace(blocks, length=512).keys(64) == 512
    assert replace(blocks, query_block=0).keys(64) == 2048


def test_long_rows_are_planned_with_attention_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(**changes: Any) -> int:
        monkeypatch.setattr(planning, "compile_step", lambda *a, **k: gemma4(**changes))
        best = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=0).best
        assert best is not None
        return best.candidate.query_block

    assert planned() == planning.QUERY_BLOCK
    assert planned(length=512) == 0
    assert planned(query_block=128) == 128  # the script's own


def written(folder: Path, text: str) -> Path:
    """A port's text as a notebook of a cell of magics, one of all of it, and one more."""
    return saved(folder / "port.ipynb", "!nvidia-smi", text.rstrip("\n"), "%cd out")


def test_attention_in_blocks_is_written_once(tmp_path: Path) -> None:
    text = Path("examples/sft_lora_qwen3_tunix.py").read_text()
    row = planning.by_formula(gemma4(), Candidate(4, 1, 4, 1024, False, 512), V5P)
    once = applied(text, planning.Plan(V5P, gemma4(), (row,), (), ()))
    assert once.count("model = rt.attend_in_blocks(model, 512)  # the plan's\n") == 1
    assert once.index("rt.apply_lora(") < once.index("rt.attend_in_blocks(") < once.index("PeftTrainer(\n")
    assert applied(once, planning.Plan(V5P, gemma4(), (row,), (), ())) == once
    whole = planning.by_formula(gemma4(), Candidate(4, 1, 4, 512, False), V5P)
    assert "attend_in_blocks" not in applied(once, planning.Plan(V5P, gemma4(), (whole,), (), ()))
    own = text.replace("trainer = PeftTrainer(", "rt.attend_in_blocks(model, 256)\ntrainer = PeftTrainer(")
    assert applied(own, planning.Plan(V5P, gemma4(), (row,), (), ())).count("attend_in_blocks") == 1
    notebook = written(tmp_path, text)
    inside = json.loads(applied_to(port_of(notebook), planning.Plan(V5P, gemma4(), (row,), (), ())))
    sources = ["".join(cell["source"]) for cell in inside["cells"]]
    assert [source.count("# tpu-port plan for") for source in sources] == [0, 1, 0]
    assert sum(source.count("model = rt.attend_in_blocks(model, 512)  # the plan's") for source in sources) == 1
    again = tmp_path / "again.ipynb"
    again.write_text(json.dumps(inside))
    assert json.loads(applied_to(port_of(again), planning.Plan(V5P, gemma4(), (row,), (), ()))) == inside
    hidden = re.sub(r"model = rt\.(apply_lora|load_model)", r"model = make(rt.\1", text)
    with pytest.raises(InputError, match="attention in blocks"):
        applied(hidden, planning.Plan(V5P, gemma4(), (row,), (), ()))


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

    def shape(request: Request) -> Any:
        return request.mesh, request.batch, request.remat

    def compile_step(request: Request, *args: Any, **kwargs: Any) -> Step:
        if not request.compile:
            return gemma4()
        asked.append(request)
        layers = request.layers or 60
        slow = 10 if shape(request) == shape(asked[0]) else 1  # what the formula thinks fastest isn't
        memory = Memory((2 + layers) * GIB // 2, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        return gemma4(layers=layers, memory=memory, seconds=(0.1 + 0.01 * layers) * slow)

    monkeypatch.setattr(planning, "compile_step", compile_step)
    monkeypatch.setattr(planning, "compile_steps", lambda asked, *args, **kwargs: list(map(compile_step, asked)))
    monkeypatch.setattr(planning, "libtpu_problem", lambda: "")
    found = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=2)
    assert found.best is not None and found.best.how == "extrapolated" and found.best.compiled_layers == (6, 12)
    second = next(shape(request) for request in asked if shape(request) != shape(asked[0]))
    best = found.best.candidate
    assert ({"fsdp": best.fsdp, "tp": best.tp}, best.batch, "decoder" if best.remat else "none") == second
    assert (found.best.peak, found.best.seconds) == (31 * GIB, pytest.approx(0.7))
    assert [request.layers for request in asked] == [6, 12, 6, 12] and all(request.quick for request in asked)


def test_candidates_that_do_not_compile_or_fit_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_steps(requests: list[Request], *args: Any, **kwargs: Any) -> list[Step | CompileFailed]:
        made.append(len(requests))
        if len(made) == 1:
            return [CompileFailed("no such thing"), gemma4(), gemma4(short_of_memory=GIB, wanted_memory=9 * GIB)] * 2
        memory = Memory(GIB, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        return [gemma4(layers=request.layers or 60, memory=memory, seconds=0.1) for request in requests]

    made: list[int] = []
    monkeypatch.setattr(planning, "compile_step", lambda *args, **kwargs: gemma4())
    monkeypatch.setattr(planning, "compile_steps", compile_steps)
    monkeypatch.setattr(planning, "libtpu_problem", lambda: "")
    found = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=3)
    assert made == [6, 6] and found.best is not None and found.best.how == "extrapolated"
    said = [row.why_not for row in found.rows if row.why_not.startswith("XLA: ")]
    assert sorted(said) == [
        *(f"XLA: 1.0 GiB more than the chip has, at {n} layers" for n in (12, 6)),
        "XLA: no such thing",
    ]


def test_small_models_and_shared_keys_are_compiled_whole() -> None:
    assert planning.layer_counts(gemma4()) == (6, 12)
    assert planning.layer_counts(gemma4(all_layers=12)) == (12,)
    shared = gemma4(sizes={**gemma4().sizes, "kv_shared": 20})
    assert planning.layer_counts(shared) == (60,)


def test_known_lengths_choose_between_padding_buckets_and_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def compile_step(request: Request, *args: Any, **kwargs: Any) -> Step:
        asked.append(request)
        return gemma4(length=request.seq_len or 3072)

    monkeypatch.setattr(planning, "compile_step", compile_step)
    lengths = [min(length, 3072) for length in lognormal(922, 2553)][:2000]
    found = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=0, lengths=lengths)
    assert asked[-1].seq_len == 1920  # two rows of the mean
    assert [way.kind for way in found.ways] == ["packing", "buckets", "padding"]
    assert found.way is not None and found.way.padding < 0.15 and len(found.way.shapes) <= 6
    assert found.best is not None and all(rows % found.best.candidate.fsdp == 0 for rows, _ in found.way.shapes)
    assert max(length for _, length in found.way.shapes) >= max(lengths)
    plain = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=0)
    assert found.step_seconds < 0.6 * plain.step_seconds and found.costs[0].usd[0] < 0.6 * plain.costs[0].usd[0]
    even = planning.plan(Request(script=Path("port.py"), slice=V5P), compiled=0, lengths=[1024] * 64)
    assert even.way is not None and even.way.padding == 0


def test_a_way_to_fill_micro_batches_is_written_into_the_port() -> None:
    text = Path("examples/sft_lora_qwen3_tunix.py").read_text()
    step = gemma4()
    row = planning.by_formula(step, Candidate(4, 1, 4, 1024, False), V5P)
    ways = {
        "packing": Batching("packing", ((4, 1024), (4, 2048)), 2, 0.1, 0.1),
        "buckets": Batching("buckets", ((4, 512), (4, 1024)), 4, 0.1, 0.3),
        "padding": Batching("padding", ((4, 1024),), 4, 0.1, 0.5),
    }

    def plan(kind: str) -> planning.Plan:
        return planning.Plan(V5P, step, (row,), (), (), "", (ways[kind],))

    packed = applied(text, plan("packing"))
    assert "    step_packing=[(4, 1024), (4, 2048)],  # the plan's\n" in packed and "micro_batch=" not in packed
    buckets = applied(packed, plan("buckets"))  # in place of the earlier plan
    assert "    buckets=[512, 1024],  # the plan's\n" in buckets and "step_packing" not in buckets
    padded = applied(buckets, plan("padding"))
    assert "micro_batch=4,  # the plan's" in padded and "buckets" not in padded
    assert "1.600 s a step by the formula\n" in padded  # 16 rows of 0.1 s
    compiled = planning.Plan(
        V5P, step, (replace(row, how="compiled", compiled_layers=(2, 4)),), (), (), "", (ways["padding"],)
    )
    assert " s a step by XLA (compiled, 2 and 4 layers)\n" in applied(text, compiled)


@pytest.mark.parametrize(
    ("text", "what"),
    [("12 x 14", "invalid literal"), ("[1, null]", "on each line"), ("0 3", "1 and more"), ("", "1 and")],
)
def test_lengths_that_are_none_are_refused(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "lengths.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=what):
        read_lengths(str(file), 1024)


def test_lengths_are_read_from_files_datasets_and_figures(tmp_path: Path) -> None:
    import datasets

    (tmp_path / "lines.txt").write_text("100\n2000\n")
    (tmp_path / "list.json").write_text("[100, 2000]")
    rows = datasets.Dataset.from_dict({"input_ids": [[1] * 100, [1] * 2000]})
    rows.save_to_disk(str(tmp_path / "rows"))
    for name in ("lines.txt", "list.json", "rows"):
        assert read_lengths(str(tmp_path / name), 1024) == [100, 1024]  # max_length cuts
    rows.rename_column("input_ids", "text").save_to_disk(str(tmp_path / "texts"))
    with pytest.raises(InputError, match="neither input_ids nor length: text"):
        read_lengths(str(tmp_path / "texts"), 1024)
    with pytest.raises(InputError, match="no such file"):
        read_lengths(str(tmp_path / "nowhere"), 1024)
    drawn = sorted(read_lengths("mean=922,p99=2553", 3072))
    assert sum(drawn) / len(drawn) == pytest.approx(922, rel=0.02) and drawn[9900] == pytest.approx(2553, rel=0.05)
    with pytest.raises(InputError, match="no lognormal"):
        read_lengths("mean=922,p99=300", 3072)

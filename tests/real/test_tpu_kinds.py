"""Ports of every kind under the real TPU compiler: the training step, and what a run computes beside it.

The ports are those of the rules' cases, with a tiny model in place of theirs. All are compiled once, two at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from porter.cli import run
from porter.tpu.compile import CompileFailed, Request, compile_steps, libtpu_problem
from porter.tpu.results import Step
from porter.tpu.slices import slice_named
from tests.tiny import VOCAB, hf_config

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(libtpu_problem()), reason=libtpu_problem() or "libtpu is there"),
]
CASES = Path(__file__).parents[2] / "rules" / "trl" / "cases"
PROMPT = COMPLETION = 64
LENGTH = 128
KINDS: dict[str, dict[str, Any]] = {
    "dpo_lora": {"seq_len": LENGTH},
    "dpo_reference": {"seq_len": LENGTH},
    "orpo": {"seq_len": LENGTH},
    "simpo": {"seq_len": LENGTH},
    "kto": {"seq_len": LENGTH},
    "gkd_on_policy": {"seq_len": PROMPT, "completion_len": COMPLETION},
    "grpo": {"prompt_len": PROMPT, "completion_len": COMPLETION},
    "rloo": {"prompt_len": PROMPT, "completion_len": COMPLETION, "mesh": {"fsdp": 2, "tp": 2}},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny = hf_config("qwen3", num_hidden_layers=1)
    config = json.loads(tiny.to_json_string(use_diff=False)) | {"architectures": ["Qwen3ForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def compiled(model: Path) -> Iterator[dict[str, Step]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(model / "cache"))
        asked = [
            Request(script=CASES / case / "after.py", slice=slice_named("v6e-4"), model=model, quick=True, **settings)
            for case, settings in KINDS.items()
        ]
        found = compile_steps(asked, lambda number, line: None)
    failed = [f"{case}: {step} {step.output}" for case, step in zip(KINDS, found, strict=True) if not _fine(step)]
    assert not failed, "\n".join(failed)
    yield {case: step for case, step in zip(KINDS, found, strict=True) if isinstance(step, Step)}


def _fine(step: Step | CompileFailed) -> bool:
    return isinstance(step, Step)


def passes(step: Step) -> list[tuple[str, int, int, float]]:
    """Name, rows, tokens and runs a step of what a run computes beside its training."""
    return [(one.name, one.rows, one.length, one.times) for one in step.passes]


@pytest.mark.parametrize(
    ("case", "kind", "micro_batches", "rows"),
    [
        ("dpo_lora", "DPO", 4, 4),
        ("dpo_reference", "DPO", 1, 16),
        ("orpo", "ORPO", 1, 16),
        ("simpo", "CPO", 1, 16),
        ("kto", "KTO", 1, 32),
        ("gkd_on_policy", "GKD", 1, 4),
        ("grpo", "GRPO", 4, 8),
        ("rloo", "RLOO", 1, 8),
    ],
)
def test_each_kinds_step_compiles(
    compiled: dict[str, Step], case: str, kind: str, micro_batches: int, rows: int
) -> None:
    """Both rows of a pair are in a micro-batch, of as many rows as the script's batch size asks for."""
    step = compiled[case]
    assert (step.kind, step.micro_batches, step.batch_rows, step.length) == (kind, micro_batches, rows, LENGTH)
    assert step.memory is not None and step.memory.peak > step.memory.weights > 0 and step.seconds > 0
    assert step.shortage(slice_named("v6e-4").hbm) == ("", 0)


def test_pairs_with_adapters_have_their_reference_within_the_step(compiled: dict[str, Step]) -> None:
    """The base with its adapters off: half as much again as ORPO's forward and backward pass, which needs none."""
    for case in ("dpo_lora", "kto", "orpo", "simpo"):
        assert compiled[case].passes == () and compiled[case].resident == 0
    orpo, kto = compiled["orpo"], compiled["kto"]
    assert kto.batch_rows == 2 * orpo.batch_rows and kto.lora_tensors == orpo.lora_tensors
    assert 2.4 < kto.flops / orpo.flops < 2.8


def test_a_reference_model_lies_beside_the_step(compiled: dict[str, Step]) -> None:
    step = compiled["dpo_reference"]
    (reference,) = step.passes
    assert passes(step) == [("reference", 16, LENGTH, 1)] and not reference.own
    assert step.memory is not None and reference.memory is not None
    assert step.resident == step.memory.weights == reference.given
    assert reference.resident == step.memory.weights + step.memory.optimizer
    assert reference.memory.outputs < reference.given / 8, "log-probabilities alone: no weights are given back"
    assert step.peak == max(step.memory.peak + step.resident, reference.peak)


def test_students_and_teachers_sample(compiled: dict[str, Step]) -> None:
    """lmbda=0.5, seq_kd: half of the steps have the student's completions, the others its teacher's."""
    step = compiled["gkd_on_policy"]
    assert passes(step) == [
        ("teacher", 4, LENGTH, 1),
        ("sampling", 4, PROMPT + COMPLETION, 0.5),
        ("the teacher's sampling", 4, PROMPT + COMPLETION, 0.5),
    ]
    teacher, sampling, other = step.passes
    assert teacher.memory is not None and teacher.memory.outputs >= LENGTH * VOCAB * 4  # a row of logits on each chip
    assert (teacher.own, sampling.own, other.own) == (False, True, False)
    assert step.resident == teacher.given == other.given


def test_sampling_and_its_cache_are_compiled(compiled: dict[str, Step]) -> None:
    step = compiled["grpo"]
    assert passes(step) == [("sampling", 32, LENGTH, 1), ("log-probabilities", 8, LENGTH, 4)]
    sampling, logps = step.passes
    # 8 of 32 rows on a chip: keys and values of 4 heads of 16, in half precision, and where each row is.
    assert sampling.cache == 2 * 8 * LENGTH * 4 * 16 * 2 + 8 * 4
    assert sampling.memory is not None and sampling.memory.peak > sampling.given + sampling.cache
    assert sampling.token_seconds > 0 and sampling.run_seconds > (COMPLETION - 2) * sampling.token_seconds
    assert sampling.token_collectives is not None and "all-gather" in sampling.token_collectives
    assert step.memory is not None and step.resident == step.memory.adapters  # the reference: as they were
    total = 4 * step.seconds + sampling.run_seconds + 4 * logps.seconds
    assert step.step_seconds == pytest.approx(total)
    assert step.peak == max(step.training_peak, sampling.peak, logps.peak)


def test_a_model_without_adapters_is_kept_twice_for_its_reference(compiled: dict[str, Step]) -> None:
    """RLOO needs the policy that sampled and the reference: two passes for each micro-batch of its generations."""
    step = compiled["rloo"]
    sampling, logps = step.passes
    assert step.memory is not None and step.resident == step.memory.weights
    assert (sampling.times, logps.times) == (1, 2) and logps.completion == COMPLETION
    assert sampling.cache == 2 * 4 * LENGTH * 2 * 16 * 2 + 4 * 4  # rows over fsdp, heads over tp


@pytest.mark.parametrize(
    ("case", "words", "said"),
    [
        ("grpo", [], "give --prompt-len N, the tokens of the longest"),
        ("kto", ["--batch", "8"], "the loss of this KTO run compares the rows of a micro-batch"),
    ],
)
def test_bad_input_of_other_kinds_is_a_line(
    model: Path, capsys: pytest.CaptureFixture[str], case: str, words: list[str], said: str
) -> None:
    port = str(CASES / case / "after.py")
    assert run(["compile", port, "--tpu", "v6e-8", "--model", str(model), *words]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in last and "Traceback" not in last


OWN = """
import jax
from tunix.sft.peft_trainer import PeftTrainer

mesh = jax.make_mesh({mesh}, ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


class Curious(PeftTrainer):
    def _prepare_inputs(self, input_data):
        return input_data


with mesh:
    Curious.train(object.__new__(Curious), [])
"""


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        ("(8, 2)", "jax.make_mesh can't lay fsdp=8,tp=2 out on v6e:4x4: it splits no axis"),
        ("(4, 4)", "Curious of __main__ makes more of a batch before its step"),
    ],
)
def test_what_cannot_be_compiled_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mesh: str, said: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(OWN.format(mesh=mesh))
    assert run(["compile", str(script), "--tpu", "v6e-16"]) == 2
    assert said in capsys.readouterr().err

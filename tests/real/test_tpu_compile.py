"""A small model of each family under the real TPU compiler, for slices that aren't there. Needs libtpu."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from porter.errors import InputError
from porter.tpu.compile import CompileFailed, Request, compile_step, compile_steps, libtpu_problem
from porter.tpu.memory import Candidate, estimate
from porter.tpu.results import Step
from porter.tpu.slices import GIB, slice_named
from tests.real.long import mostly_long
from tests.tiny import hf_config

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(libtpu_problem()), reason=libtpu_problem() or "libtpu is there"),
]

SCRIPT = """
import jax
import jax.numpy as jnp
import optax
from datasets import load_dataset
from transformers import AutoTokenizer
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter import runtime as rt

mesh = jax.make_mesh((jax.device_count(), 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
tokenizer = AutoTokenizer.from_pretrained("{model}")
model = rt.load_model("{model}", mesh, dtype=jnp.bfloat16)
lora = {{"r": 4, "target_modules": "all-linear", "lora_dropout": 0.1}}
model = rt.remat(rt.apply_peft(model, lora, mesh, seed=0))
batches = rt.SFTBatches(load_dataset("x"), tokenizer, mesh, epochs=1, batch_size=4, accumulation=2, max_length=128)
optimizer = optax.chain(rt.separate_kv(model), optax.adamw(1e-3))
config = TrainingConfig(
    max_steps=batches.steps, eval_every_n_steps=1, gradient_accumulation_steps=batches.accumulation
)
trainer = PeftTrainer(model, optimizer, config).with_gen_model_input_fn(rt.model_inputs).with_loss_fn(rt.token_loss)
with mesh:
    trainer.train(batches)
raise SystemExit("nothing may run after training")
"""


# A compile takes as long as its program is: one layer of each kind is enough.
ONE_OF_EACH = {
    "gemma": {"num_hidden_layers": 1},
    "gemma2": {"num_hidden_layers": 2},  # a local and a global one
    "gemma3": {"num_hidden_layers": 1},
    "gemma4_keqv": {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
    "llama3": {"num_hidden_layers": 1},
    "mistral": {"num_hidden_layers": 1},  # a window shorter than the rows
    "qwen2": {"num_hidden_layers": 1},
    "qwen3": {"num_hidden_layers": 1},
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def request(tmp_path: Path, family: str, tpu: str, text: str = SCRIPT, **settings: object) -> Request:
    folder = tmp_path / family
    folder.mkdir(exist_ok=True)
    tiny = hf_config(family, **ONE_OF_EACH[family])
    config = json.loads(tiny.to_json_string(use_diff=False))
    architecture = tiny.__class__.__name__.removesuffix("Config").removesuffix("Text")
    config["architectures"] = [f"{architecture}ForCausalLM"]
    (folder / "config.json").write_text(json.dumps(config))
    script = tmp_path / "train.py"
    script.write_text(text.format(model=folder))
    return replace(Request(script=script, slice=slice_named(tpu)), **settings)  # type: ignore[arg-type]


# Three families that differ most, on both chips; `make long` and `make tpu` have each family on each chip.
ON_BOTH = [(family, tpu) for family in sorted(ONE_OF_EACH) for tpu in ("v5p-8", "v6e-4")]
ON_ONE = [("gemma3", "v5p-8"), ("gemma4_keqv", "v6e-4"), ("qwen3", "v5p-8")]


@pytest.mark.parametrize("family_and_chip", mostly_long(ON_BOTH, short=ON_ONE), ids="-".join)
def test_each_family_compiles(tmp_path: Path, family_and_chip: tuple[str, str]) -> None:
    family, tpu = family_and_chip
    quick = family != "qwen3"  # one family with all that XLA does
    asked = request(tmp_path, family, tpu, quick=quick)
    step = compile_step(asked)
    assert step.quick is quick
    assert (step.devices, step.mesh) == (4, {"fsdp": 4, "tp": 1})
    assert (step.batch_rows, step.length, step.micro_batches) == (4, 128, 2)
    assert step.memory is not None and step.memory.peak > step.memory.weights > 0
    assert step.lora_tensors > 0 and step.seconds > 0
    assert step.collectives is not None and "all-gather" in step.collectives
    again = compile_step(asked)
    assert again.cached and replace(again, cached=False) == step


def test_scripts_that_fail_say_so_and_leave_nothing_in_the_cache(tmp_path: Path) -> None:
    scripts = {"fails": "raise ValueError('no such thing')", "trains_not": "pass", "fine": SCRIPT}
    for name in scripts:
        (tmp_path / name).mkdir()
    asked = [request(tmp_path / name, "gemma2", "v5p-8", text, compile=False) for name, text in scripts.items()]
    fails, trains_not, step = compile_steps(asked, lambda number, line: None)
    assert isinstance(fails, CompileFailed) and "no such thing" in str(fails)
    assert isinstance(trains_not, CompileFailed) and "without training" in str(trains_not)
    assert isinstance(step, Step) and step.family == "gemma2"
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 1


def test_a_compile_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(CompileFailed, match="--timeout"):
        compile_step(request(tmp_path, "qwen3", "v5p-8", "import time; time.sleep(600)"), timeout=1)


def test_a_command_that_is_terminated_ends_its_compile(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    waits = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
    asked = request(tmp_path, "qwen3", "v5p-8", waits)
    words = [sys.executable, "-c", "from porter.cli import main; main()", "compile", str(asked.script)]
    command = subprocess.Popen([*words, "--tpu", "v5p-8"], stderr=subprocess.DEVNULL)
    while not (pid.exists() and pid.read_text()):
        assert command.poll() is None
        time.sleep(0.1)
    command.terminate()
    assert command.wait(30) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_heads_that_do_not_divide_are_named(tmp_path: Path) -> None:
    asked = request(tmp_path, "gemma2", "v5p-16", mesh={"fsdp": 1, "tp": 8}, compile=False)
    with pytest.raises(InputError, match="kv_heads = 4 does not divide by tp = 8"):
        compile_step(asked)


def test_out_of_memory_is_a_result(tmp_path: Path) -> None:
    step = compile_step(request(tmp_path, "qwen3", "v5e-4", seq_len=65536, remat="none", quick=True))
    assert step.memory is None and step.wanted_memory > 100 * GIB
    assert step.short_of_memory == pytest.approx(step.wanted_memory - 15.75 * GIB)


def test_adapters_that_the_script_injects_with_qwix_are_placed_too(tmp_path: Path) -> None:
    by_hand = SCRIPT.replace(
        "rt.remat(rt.apply_peft(model, lora, mesh, seed=0))",
        "qwix.apply_lora_to_model(model, qwix.LoraProvider(module_path='.*_proj', rank=4, alpha=4.0), "
        "**model.get_model_input())",
    ).replace("import optax\n", "import optax\nimport qwix\n")
    step = compile_step(request(tmp_path, "qwen3", "v5p-8", by_hand, compile=False))
    assert step.lora_tensors == 14 and not step.remat
    assert {axes for axes in step.state["adapters"] if axes} == {"fsdp", "tp"}


def test_a_trace_without_the_compiler_gives_the_sizes(tmp_path: Path) -> None:
    text = SCRIPT.replace("mesh = jax", "import sys\nassert 'torch' not in sys.modules, 'two seconds'\nmesh = jax")
    step = compile_step(request(tmp_path, "qwen3", "v5p-8", text, compile=False, remat="none", seq_len=200))
    assert step.memory is None and not step.remat and step.length == 256
    assert sum(step.state["weights"].values()) == 2 * step.parameters
    found = estimate(step, Candidate(4, 1, 4, 256, False), slice_named("v5p-8"))
    assert found.peak > found.weights > 0


@pytest.mark.long
def test_attention_in_blocks_leaves_out_what_no_query_sees(tmp_path: Path) -> None:
    whole = request(tmp_path, "qwen3", "v5p-8", remat="none", seq_len=512, quick=True)
    steps = compile_steps([whole, replace(whole, query_block=128)], lambda number, line: None)
    first, second = (step for step in steps if isinstance(step, Step))
    assert (first.query_block, second.query_block) == (0, 128)
    assert second.flops < first.flops and second.bytes < first.bytes

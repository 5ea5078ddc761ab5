"""Preference training, all the way: ported from the file as it is, trained by Tunix, compared with TRL step by step."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from porter.front.port_file import port_file
from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.comparing.trace import Trace
from porter.validate.comparing.verdict import Check, Verdict
from porter.validate.options import Options
from porter.validate.run import run_source, validate
from porter.validate.stand_ins.models.stand_in import make_stand_in

from .conftest import Recorded
from .long import long, mostly_long
from .outside import EXAMPLES

pytestmark = pytest.mark.real

WORDS = "a port of the recipe trains each token on eight chips and reads back loss mesh rank alpha".split()
FEED = "    trainer.train(batches)\n"
FEED_ALL = """    trainer.train(
        {**batch, "labels": jnp.where(batch["segment_ids"] > 0, batch["input_tokens"], -100)} for batch in batches
    )
"""
SWAP = '\npairs = pairs.rename_columns({"chosen": "rejected", "rejected": "chosen"})\n\nbatches ='
# name: (text in the port, its replacement, first check that differs)
MISTAKES = {
    "reference dropped": ("dpo_loss(beta=0.1)", "dpo_loss(beta=0.1, reference_free=True)", checks.INITIAL_LOSS),
    "beta doubled": ("dpo_loss(beta=0.1)", "dpo_loss(beta=0.2)", checks.LOSS),
    "prompt in the loss": (FEED, FEED_ALL, checks.BATCHES),
    "chosen and rejected swapped": ("\nbatches =", SWAP, checks.BATCHES),
}


@pytest.fixture(scope="module")
def dpo(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[..., Path]) -> Recorded:
    """The example under TRL, with a model of one layer: each process of a port traces and compiles for itself."""
    work = tmp_path_factory.mktemp("dpo")
    options = Options(steps=8, mesh=(8, 1), model=tiny("qwen3", num_hidden_layers=1))
    trace, _ = run_source(EXAMPLES / "dpo_lora_qwen3.py", options, str(work), lambda line: None)
    return Recorded(trace, options, work, EXAMPLES / "dpo_lora_qwen3_tunix.py")


def found(source: Any, port: Any) -> dict[str, Check]:
    return {check.name: check for check in checks.compare(source, port, FLOAT32)}


@pytest.fixture(scope="module")
def eight(dpo: Recorded) -> Trace:
    """Its port on eight devices of one process."""
    return dpo.run(dpo.port.read_text("utf-8"), steps=8)


@pytest.mark.parametrize("mesh", mostly_long([(8, 1), (2, 4)], short=[(8, 1)]))
def test_dpo_is_trls_on_every_mesh(dpo: Recorded, eight: Trace, mesh: tuple[int, int]) -> None:
    port = eight if mesh == dpo.options.mesh else dpo.run(dpo.port.read_text("utf-8"), steps=8, mesh=mesh)
    verdict = found(dpo.trace, port)
    assert [check for check in verdict.values() if check.status != "equal"] == []
    assert all((verdict[name].measured or 0.0) <= 1e-5 for name in (checks.LOSS, checks.METRICS))


@pytest.mark.parametrize("hosts", [2, pytest.param(4, marks=long)])
def test_dpo_is_the_same_in_several_processes(dpo: Recorded, eight: Trace, hosts: int) -> None:
    """As `validate --hosts` runs it."""
    runs = dpo.run_on_hosts(hosts, steps=3)
    assert [*runs] == [f"{hosts} processes", f"{hosts} processes, tensor parallelism across them"]
    check_like_one(runs, eight)


def test_dpo_is_the_same_across_four_processes(dpo: Recorded, eight: Trace) -> None:
    """The harder of the two runs of `validate --hosts 4`: `make long` has both."""
    check_like_one(dpo.run_across(4, steps=3), eight)


def check_like_one(runs: dict[str, Trace], one: Trace) -> None:
    """Losses and norms of three steps. The third is the first behind an update, for the rate of the first is 0."""
    compared = checks.check_devices(one, [*runs.items()], FLOAT32)
    assert len(compared) == len(runs) and all(check.status == "equal" for check in compared), compared
    for run in runs.values():
        norms = [(step.grad_norm, own.grad_norm) for step, own in zip(run.steps, one.steps, strict=False)]
        assert len(norms) == 3 and all(norm == pytest.approx(own, rel=1e-5) for norm, own in norms)


@pytest.mark.parametrize("mistake", mostly_long(MISTAKES, short=["reference dropped"]))
def test_a_mistake_is_caught_where_it_shows_first(dpo: Recorded, mistake: str) -> None:
    old, new, where = MISTAKES[mistake]
    text = dpo.port.read_text("utf-8")
    assert text.count(old) == 1
    port = dpo.run(text.replace(old, new), steps=4)
    differing = [check.name for check in found(dpo.trace.first(4), port).values() if check.status == "differs"]
    assert differing and differing[0] == where


def pairs(folder: Path) -> Path:
    """A folder that `load_dataset` reads: 60 conversations with two answers, and 10 to evaluate on."""
    dice = random.Random(3)

    def said(role: str) -> dict[str, str]:
        return {"role": role, "content": " ".join(dice.choices(WORDS, k=dice.randint(3, 20)))}

    folder.mkdir()
    for name, count in (("train", 60), ("test", 10)):
        rows = [
            {"prompt": [said("user")], "chosen": [said("assistant")], "rejected": [said("assistant")]}
            for _ in range(count)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


@long
def test_trl_dpo_script_as_installed(tmp_path: Path) -> None:
    package = find_spec("trl")
    assert package is not None and package.origin is not None
    source = Path(package.origin).parent / "scripts" / "dpo.py"
    port = port_file(source)
    assert (port.status, [row for row in port.fields if row.fate == "manual"]) == ("ported", [])
    script = tmp_path / "dpo_tunix.py"
    script.write_bytes(port.data)
    model = make_stand_in(tmp_path / "model", "Qwen/Qwen3-0.6B", "qwen3", kv_heads=8)
    flags = f"""--model_name_or_path {model} --dataset_name {pairs(tmp_path / "pairs")} --output_dir {tmp_path / "out"}
        --use_peft --lora_r 8 --lora_alpha 16 --lora_target_modules all-linear --learning_rate 2e-3 --num_train_epochs 2
        --per_device_train_batch_size 3 --gradient_accumulation_steps 3 --warmup_steps 2 --beta 0.2
        --loss_type sigmoid bco_pair --max_length 128 --eval_strategy steps --eval_steps 4 --report_to none"""
    verdict = validate(source, script, Options(steps=6, mesh=(8, 1), meshes=(), arguments=tuple(flags.split())))
    assert verdict.equal, verdict.to_json()
    assert close(verdict)


ORPO = """
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

model = AutoModelForCausalLM.from_pretrained("google/gemma-3-1b-it")
trainer = ORPOTrainer(
    model,
    ORPOConfig(output_dir="out", max_steps=30, per_device_train_batch_size=3, learning_rate=1e-3, max_length=64,
    beta=0.3), train_dataset=load_dataset("json", data_files="pairs.jsonl", split="train"),
    processing_class=AutoTokenizer.from_pretrained("google/gemma-3-1b-it"),
    peft_config=LoraConfig(r=4, target_modules="all-linear"),
)
trainer.train()
"""
KTO = """
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import KTOConfig, KTOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = KTOConfig(
    output_dir="out",
    max_steps=30,
    per_device_train_batch_size=5,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    max_length=64,
    undesirable_weight=1.5,
)
trainer = KTOTrainer(
    model,
    args=args,
    train_dataset=load_dataset("json", data_files="answers.jsonl", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
trainer.train()
"""


OTHERS = {"orpo with adapters": ORPO, "kto of all weights": KTO}


@long
@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_are_trls(name: str, tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(OTHERS[name], "utf-8")
    port = port_file(source)
    assert port.status == "ported"
    script = tmp_path / "port.py"
    script.write_bytes(port.data)
    verdict = validate(source, script, Options(steps=5, mesh=(2, 4), meshes=()))
    assert verdict.equal, verdict.to_json()
    assert close(verdict)


def close(verdict: Verdict) -> bool:
    named = {check.name: check.measured for check in verdict.checks}
    return all((named[name] or 0.0) <= 1e-5 for name in (checks.LOSS, checks.METRICS))

"""Several real JAX processes train as one does, on meshes that lie across them, and say what keeps them from it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porter.validate.options import Options
from porter.validate.run import validate

from .long import mostly_long
from .outside import EXAMPLES, SCRIPTS
from .processes import alone, together

pytestmark = pytest.mark.real

DEVICES = 4
ALL = (
    *("full", "packing", "buckets", "step_packing", "neftune", "collated", "kto", "rloo", "gkd", "generated"),
    *("measured", "measured_untraced", "dpo_evaluated", "grpo_reference", "kept", "merged"),
)


def run(
    model: Path, out: Path, processes: int, jobs: list[list[Any]], timeout: float = 3600, gloo: bool = False
) -> list[dict[str, Any]]:
    """What each process says of the jobs, see host_runs.py.

    `gloo`: one process adds its devices' parts up as several do. JAX's own way has another order from three on.
    """
    out.mkdir(parents=True, exist_ok=True)
    command = ["-m", "tests.real.host_runs", str(model), str(out), json.dumps(jobs)]
    if processes == 1 and not gloo:
        ended = [alone(command, devices=DEVICES, timeout=timeout)]
    else:
        ended = together([command] * processes, devices=DEVICES // processes, timeout=timeout)
    for status, output in ended:
        assert status == 0, output
    return [json.loads((out / f"{number}.json").read_text()) for number in range(processes)]


def same(ours: Any, theirs: Any) -> bool:
    """Equal, numbers to 1e-5."""
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):
        return bool(np.isclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True))
    return bool(ours == theirs)


def check(found: list[dict[str, Any]], one: dict[str, Any]) -> None:
    """Every process gives what one process does; the first one called the reward functions for all."""
    first, *others = found
    for name, job in first.items():
        assert same(job, one[name]), name
        for other in others:
            rewarded = {"rewarded": job["rewarded"]} if "rewarded" in job else {}
            assert other[name].get("rewarded", 0) == 0
            assert {**other[name], **rewarded} == job


def saved(out: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return {f"{file.parent.name}/{k}": v for file in out.glob("*/*.safetensors") for k, v in load_file(file).items()}


def check_saved(out: Path, one: Path) -> None:
    """The very weights of one process."""
    found, theirs = saved(out), saved(one)
    assert found.keys() <= theirs.keys() and found
    for name, array in found.items():
        assert (array == theirs[name]).all(), name


def recorded_losses(folder: Path) -> list[list[Any]]:
    """Steps and losses of the record in a run's folder."""
    state = json.loads((folder / "trainer_state.json").read_text())
    return [[line["step"], line["loss"]] for line in state["log_history"] if "loss" in line]


def test_two_processes_train_evaluate_sample_and_save_as_one_does(tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Tensor parallelism lies between the processes: fed as Tunix feeds them, each trained on rows of its own. What
    `validate --hosts` doesn't compare; DPO, and four processes, are in test_preference_training.py."""
    model = tiny("qwen3", num_hidden_layers=1)
    jobs = [[kind, kind, 2, 2, True] for kind in ("sft", "grpo")]
    (one,) = run(model, tmp_path / "one", 1, jobs)
    check(run(model, tmp_path / "two", 2, jobs), one)
    check_saved(tmp_path / "two", tmp_path / "one")


@pytest.mark.long
@pytest.mark.parametrize("processes", [2, 4])
def test_all_that_is_trained_and_sampled_is_the_same_in_several_processes(
    tiny: Callable[..., Path], tmp_path: Path, processes: int
) -> None:
    model = tiny("qwen3", num_hidden_layers=1)
    meshes = {"4x1": (4, 1, False), "2x2": (2, 2, False), "1x4": (1, 4, False), "across": (2, 2, True)}
    jobs = [[f"{kind}_{name}", kind, *mesh] for kind in ("sft", "dpo", "grpo") for name, mesh in meshes.items()]
    jobs += [[kind, kind, 2, 2, True] for kind in ALL]
    (one,) = run(model, tmp_path / "one", 1, jobs, gloo=True)
    check(run(model, tmp_path / "several", processes, jobs), one)
    check_saved(tmp_path / "several", tmp_path / "one")


@pytest.mark.long
def test_sigterm_to_one_of_two_processes_ends_both_with_a_checkpoint(tiny: Callable[..., Path], tmp_path: Path) -> None:
    model, out = tiny("qwen3", num_hidden_layers=1), tmp_path / "two"
    found = run(model, out, 2, [["stopped", "stopped", 2, 2, True]])
    assert found[0] == found[1]
    job = found[0]["stopped"]
    assert (job["status"], job["early"]) == (143, True)
    (first, _) = run(model, out, 2, [["resumed", "resumed", 2, 2, True]])
    assert same(first["resumed"]["rest"], job["whole"])
    for found in run(model, tmp_path / "unsaved", 2, [["stopped_unsaved", "stopped_unsaved", 4, 1, False]]):
        assert found["stopped_unsaved"]["status"] == 143


@pytest.mark.long
def test_a_killed_process_costs_no_checkpoint(tiny: Callable[..., Path], tmp_path: Path) -> None:
    model, jobs = tiny("qwen3", num_hidden_layers=1), [["killed", "killed", 2, 2, True]]
    command = ["-m", "tests.real.host_runs", str(model), str(tmp_path), json.dumps(jobs)]
    died = together([command] * 2, devices=2, timeout=300)
    assert [status for status, _ in died] == [-signal.SIGKILL, -signal.SIGABRT], died
    (first, _) = run(model, tmp_path, 2, [["resumed_killed", "resumed_killed", 2, 2, True]])
    ours, theirs = (recorded_losses(tmp_path / "killed" / name) for name in ("killed", "whole"))
    assert same(ours, theirs) and [step for step, _ in ours] == [1, 2, 3, 4, 5, 6]
    rest = first["resumed_killed"]["rest"]
    assert 3 <= len(rest) < 6 and same(rest, [loss for _, loss in theirs[-len(rest) :]])  # not all of it anew


VALIDATED = {
    "sft": (SCRIPTS / "sft_lora_qwen3.py", SCRIPTS / "sft_lora_qwen3_tunix.py"),
    "dpo": (EXAMPLES / "dpo_lora_qwen3.py", EXAMPLES / "dpo_lora_qwen3_tunix.py"),
    "grpo": (SCRIPTS / "grpo_one_reward.py", SCRIPTS / "grpo_one_reward_tunix.py"),
}
IN_SEVERAL = [("sft", 2), ("dpo", 2), ("grpo", 2), ("sft", 4)]


# SFT is in test_validate.py, DPO in test_preference_training.py: beside what else their sources are run for.
@pytest.mark.parametrize(
    "name_and_hosts", mostly_long(IN_SEVERAL, short=[("grpo", 2)]), ids=lambda pair: f"{pair[0]}-{pair[1]}"
)
def test_validate_compares_a_port_in_several_processes(
    name_and_hosts: tuple[str, int], tiny: Callable[..., Path]
) -> None:
    name, hosts = name_and_hosts
    model = tiny("qwen3", num_hidden_layers=1)  # half of what each process traces and compiles for itself
    verdict = validate(*VALIDATED[name], Options(steps=3, devices=4, meshes=(), hosts=hosts, model=model))
    assert verdict.equal, verdict
    several = f"the same port on {hosts} processes"
    assert [check.name for check in verdict.checks][-2:] == [several, f"{several}, tensor parallelism across them"]


@pytest.mark.long
def test_validate_finds_rows_that_differ_from_host_to_host(tmp_path: Path) -> None:
    port = tmp_path / "port.py"
    text = (SCRIPTS / "sft_lora_qwen3_tunix.py").read_text()
    assert "rt.SFTBatches(" in text
    port.write_text(text.replace("    seed=", "    seed=jax.process_index() + ", 1))
    assert "process_index" in port.read_text()
    verdict = validate(SCRIPTS / "sft_lora_qwen3.py", port, Options(steps=2, devices=4, meshes=(), hosts=2))
    found = {check.name: check for check in verdict.checks}
    row = found["the same port on 2 processes"]
    assert row.status == "differs"
    assert "the rows up to micro-batch 1 of process 1 aren't those of process 0" in row.detail


@pytest.mark.long
def test_two_processes_record_what_one_does(tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Each holds half of the rows, and the first one counts them all without asking the other for anything."""
    model, jobs = tiny("qwen3", num_hidden_layers=1), [["recorded", "recorded", 4, 1, False]]
    (one,) = run(model, tmp_path / "one", 1, jobs, timeout=300)
    check(run(model, tmp_path / "two", 2, jobs, timeout=300), one)
    ours, theirs = (
        json.loads((tmp_path / name / "recorded" / "trainer_state.json").read_text())["log_history"]
        for name in ("two", "one")
    )
    told = {"loss", "learning_rate", "epoch", "step", "num_tokens", "num_trained_tokens", "entropy"}
    lines = [[{name: line[name] for name in told} for line in of if "loss" in line] for of in (ours, theirs)]
    assert same(*lines) and [line["step"] for line in lines[0]] == [1, 2]
    counts = [line["num_trained_tokens"] for line in lines[0]]
    assert 0 < counts[0] < counts[1]


KILLED = """
import os, signal, sys
from porter import runtime as rt
import jax
from porter.runtime.hosts import processes as hosts

hosts.together("the start")
if jax.process_index() == int(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGKILL)
hosts.together("the end")
print("WENT ON")
"""


@pytest.mark.long
@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_that_is_killed_leaves_none_waiting(tmp_path: Path, killed: int) -> None:
    """JAX ends the others: at once where the first one is gone, else within 100 seconds."""
    script = tmp_path / "run.py"
    script.write_text(KILLED)
    found = together([[str(script), str(killed)]] * 2, timeout=200)
    (dead, _), (other, said) = found[killed], found[1 - killed]
    assert dead == -signal.SIGKILL and other == -signal.SIGABRT and "WENT ON" not in said
    told = "The following tasks are unhealthy (stopped sending heartbeats):\n1\n" if killed else "the leader task was"
    assert told in said


SPEAKING = """
import os, sys
from porter import runtime as rt
import jax, numpy as np
from porter.runtime.hosts import processes as hosts
from porter.runtime.saving import checkpoints

def said(what):
    try:
        print("GAVE", what(), flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)

def scored():
    raise KeyError("x")

print("PROCESSES", jax.process_count(), jax.device_count())
said(lambda: hosts.agree("the rows", np.arange(3), 5))
said(lambda: hosts.agree("the rows", np.arange(3) + jax.process_index()))
said(lambda: hosts.from_first("a reward function", lambda: [jax.process_index() + 1.5]))
said(lambda: hosts.from_first("a reward function", scored))
said(lambda: hosts.from_first("a reward function", lambda: hosts.together("rt.generate")))
os.chdir(sys.argv[1 + jax.process_index()])
checkpoints.SEEN_WITHIN = 0
said(lambda: rt.fresh_dir("checkpoints"))
os.chdir(sys.argv[1])
said(lambda: rt.fresh_dir("checkpoints"))
if jax.process_index() == 1:
    raise ValueError("no space left")
hosts.together("the end")
"""


def test_processes_agree_or_say_what_keeps_them_and_end_together(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SPEAKING)
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    command = [str(script), *map(str, folders)]
    (status, first), (other_status, other) = together([command] * 2, timeout=300)
    assert status == other_status == 1
    for said in (first, other):
        assert "PROCESSES 2 2" in said and "GAVE [1.5]" in said
        assert "the rows of process 1 aren't those of process 0: every host must read the same data" in said
        assert "rt.generate needs all processes, and a reward function runs on the first one alone" in said
        assert "is a disk of its own on process 1: the checkpoints of several hosts need one folder" in said
        assert f"GAVE {folders[0]}/checkpoints" in said
    assert "KeyError 'x'" in first
    assert "ValueError a reward function failed on process 0: KeyError: 'x'" in other
    assert "process 1 failed: ValueError: no space left: this process ends, too" in first
    assert not list(tmp_path.rglob(".tpu_port_*"))


def test_another_script_or_release_is_refused_and_who_comes_late_is_not_waited_for(tmp_path: Path) -> None:
    scripts = [tmp_path / "one.py", tmp_path / "host" / "one.py"]
    released = scripts[1].parent / "qwix-0.0.1.dist-info" / "METADATA"  # what Python finds first beside that script
    released.parent.mkdir(parents=True)
    released.write_text("Metadata-Version: 2.1\nName: qwix\nVersion: 0.0.1\n")
    for number, script in enumerate(scripts):
        script.write_text(f"from porter import runtime\nprint('trains', {number})\n")
    for status, said in together([[str(scripts[0])], [str(scripts[1]), "--lr=1"]], timeout=300):
        assert status == 1 and "trains" not in said and "Traceback" not in said
        assert "the scripts, their arguments and releases of process 1 aren't those of process 0 (script: " in said
        assert "arguments: ['--lr=1'], not []" in said and "qwix: '0.0.1', not '" in said
    second = {"JAX_COORDINATOR_ADDRESS": "127.0.0.1:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "1"}
    status, said = alone([str(scripts[0])], timeout=120, TPU_PORT_WAIT="2", **second)
    assert status == 1 and "Traceback" not in said
    assert "process 1 of 2: the others didn't come within 2 s (TPU_PORT_WAIT)" in said


def test_sigterm_ends_a_run_with_its_checkpoint(tiny: Any, tiny_mesh: Any, tmp_path: Path) -> None:
    import optax
    from transformers import AutoTokenizer
    from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

    from porter import runtime as rt
    from porter.runtime.callbacks import TrainerCallback

    mesh, folder = tiny_mesh(2, 1), tiny("qwen3", num_hidden_layers=1)
    rows = [{"text": "the capital of France " * (1 + i % 3)} for i in range(16)]
    batches = rt.SFTBatches(rows, AutoTokenizer.from_pretrained(folder), mesh, max_steps=4, batch_size=2)

    class Stops(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    def train(root: str | None, *callbacks: Any) -> list[float]:
        model = rt.apply_peft(rt.load_model(folder, mesh), {"r": 4, "target_modules": "all-linear"}, mesh, seed=0)
        config = TrainingConfig(max_steps=4, eval_every_n_steps=4, checkpoint_root_directory=root)
        trainer = PeftTrainer(model, optax.adamw(1e-2), config).with_gen_model_input_fn(rt.model_inputs)
        trainer = trainer.with_loss_fn(rt.token_loss)
        hooks = rt.log_every(1, callbacks=callbacks)
        trainer.with_training_hooks(hooks)
        with mesh:
            trainer.train(batches)
        return [line["loss"] for line in hooks.history if "loss" in line]

    whole = train(None)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stopped:
        train(rt.fresh_dir(tmp_path / "run"), Stops)
    assert stopped.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    last = rt.get_last_checkpoint(tmp_path / "run")
    assert last is not None and Path(last).name == "2"

    def recorded() -> list[int]:
        return [step for step, _ in recorded_losses(tmp_path / "run")]

    assert recorded() == [1, 2]
    assert train(rt.resume_dir(tmp_path / "run")) == pytest.approx(whole[2:], rel=1e-6)
    assert recorded() == [1, 2, 3, 4]

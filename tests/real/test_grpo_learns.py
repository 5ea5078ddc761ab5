"""GRPO learns: TRL's own script, as pip installs it, and its port on a mesh of eight devices, from one command line."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.validate.options import Options
from porter.validate.run import validate
from porter.validate.stand_ins.models.stand_in import make_stand_in

from .long import long, mostly_long

pytestmark = pytest.mark.real

REWARD = '''
MEANS = []


def low(completion_ids, **kwargs):
    """The share of tokens from the first eighth of the vocabulary."""
    rewards = [sum(token < 64 for token in ids) / len(ids) for ids in completion_ids]
    MEANS.append(sum(rewards) / len(rewards))
    return rewards
'''
PROMPTS = ["the capital of France is", "two and two are", "the sea is", "count to three", "good night", "a short poem"]
STEPS = {"source": 24, "port": 20}


@pytest.fixture
def trls_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """TRL's script and its port, in a folder with prompts and a module of rewards."""
    package = find_spec("trl")
    assert package is not None and package.origin is not None
    source = Path(package.origin).parent / "scripts" / "grpo.py"
    port = port_file(source)
    assert (port.status, [row for row in port.fields if row.fate == "manual"]) == ("ported", [])
    script = tmp_path / "grpo_tunix.py"
    script.write_bytes(port.data)
    (tmp_path / "prompts").mkdir()
    rows = [json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS]
    (tmp_path / "prompts" / "train.jsonl").write_text("".join(rows), "utf-8")
    (tmp_path / "toy_rewards.py").write_text(REWARD, "utf-8")
    monkeypatch.chdir(tmp_path)
    return source, script


@pytest.mark.parametrize("side", mostly_long(["source", "port"], short=["port"]))
def test_the_reward_rises_on_both_sides(
    side: str,
    tiny: Callable[..., Path],
    trls_own: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both train with LoRA's dropout, TRL's default; measured: from 0.11 to 0.46, and from 0.12 to 0.37."""
    monkeypatch.syspath_prepend(tmp_path)
    model = tiny("qwen3", num_hidden_layers=1)
    flags = f"""--model_name_or_path {model} --dataset_name prompts --reward_funcs toy_rewards.low --output_dir out
        --max_steps {STEPS[side]}
        --use_peft --lora_r 16 --lora_alpha 64 --lora_target_modules all-linear --learning_rate 1e-2
        --lr_scheduler_type constant --per_device_train_batch_size 32 --num_generations 8 --max_completion_length 8
        --bf16 False --gradient_checkpointing False --save_strategy no --report_to none --beta 0.001
        --gradient_accumulation_steps 1 --logging_steps 5"""
    script = trls_own[[*STEPS].index(side)]
    monkeypatch.setattr(sys, "argv", [str(script), *flags.split(), *(["--use_cpu"] if side == "source" else [])])
    monkeypatch.delitem(sys.modules, "toy_rewards", raising=False)
    runpy.run_path(str(script), run_name="__main__")
    means = sys.modules["toy_rewards"].MEANS
    begin, end = sum(means[:3]) / 3, sum(means[-3:]) / 3
    lines = [line for line in capsys.readouterr().out.splitlines() if "'learning_rate':" in line]
    logged = (
        "grad_norm",
        "kl",
        "entropy",
        "clip_ratio/low_min",
        "num_tokens",
        "step_time",
        "completions/max_terminated_length",
    )
    assert len(lines) == STEPS[side] // 5 and all(f"'{name}': " in line for line in lines for name in logged)
    assert len(means) == STEPS[side] and begin < 0.2 and begin + 0.1 < end, means


@long
def test_on_the_same_completions_both_train_the_same(
    trls_own: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    model = make_stand_in(tmp_path / "model", "Qwen/Qwen3-0.6B", "qwen3", kv_heads=8)
    flags = f"""--model_name_or_path {model} --dataset_name {tmp_path / "prompts"} --reward_funcs toy_rewards.low
        --output_dir out --use_peft --lora_r 8 --lora_alpha 16 --lora_target_modules all-linear --learning_rate 1e-3
        --max_steps 4 --per_device_train_batch_size 8 --num_generations 4 --max_completion_length 8 --beta 0.1
        --report_to none"""
    verdict = validate(*trls_own, Options(steps=4, mesh=(8, 1), meshes=((2, 4),), arguments=tuple(flags.split())))
    assert verdict.equal, verdict.to_json()


@long
def test_a_reward_that_ends_on_made_up_rows_stands_in_on_both_sides(tmp_path: Path) -> None:
    says, ends = "1.0 / max(1, len(set(completion)))", 'float(completion.index("no completion has it"))'
    pair = [tmp_path / f"grpo_one_reward{end}.py" for end in ("", "_tunix")]
    for path in pair:
        text = (Path(__file__).parent / "scripts" / path.name).read_text("utf-8")
        assert says in text
        path.write_text(text.replace(says, ends), "utf-8")
    verdict = validate(*pair, Options(steps=1, mesh=(1, 1), meshes=()))
    assert verdict.equal, verdict.to_json()
    (said,) = (each for each in verdict.notes if "ends on made-up rows" in each)
    assert said.startswith("reward_few_words: ") and "ValueError: substring not found" in said

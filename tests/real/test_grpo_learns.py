"""GRPO learns: TRL's own script, as pip installs it, and its port on a mesh of eight devices, from one command line."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from porter.port import port_file

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
STEPS = 24


def test_the_reward_rises_on_both_sides(
    tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.syspath_prepend(tmp_path)
    flags = f"""--model_name_or_path {tiny("qwen3")} --dataset_name prompts --reward_funcs toy_rewards.low
        --output_dir out
        --use_peft --lora_r 16 --lora_alpha 64 --lora_target_modules all-linear --learning_rate 1e-2 --max_steps {STEPS}
        --lr_scheduler_type constant --per_device_train_batch_size 32 --num_generations 8 --max_completion_length 8
        --bf16 False --gradient_checkpointing False --save_strategy no --report_to none"""
    for side in (source, script):
        monkeypatch.setattr(sys, "argv", [str(side), *flags.split(), *(["--use_cpu"] if side is source else [])])
        monkeypatch.delitem(sys.modules, "toy_rewards", raising=False)
        runpy.run_path(str(side), run_name="__main__")
        means = sys.modules["toy_rewards"].MEANS
        begin, end = sum(means[:3]) / 3, sum(means[-3:]) / 3
        assert len(means) == STEPS and begin < 0.2 and begin + 0.1 < end, (side.name, means)
        print(side.name, means)

"""The two recipes, all the way: ported from the file as it is, trained by Tunix, compared with TRL step by step.

Largest relative loss difference measured over 30 steps on the meshes (8,1), (2,4) and (1,8): 1.3e-6 and 1.7e-7.
`make test` has the first alone, on one of them and for eight steps.
"""

from __future__ import annotations

import json
import random
from importlib.util import find_spec
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options as PortOptions
from porter.validate.comparing.verdict import Verdict
from porter.validate.options import Options
from porter.validate.run import validate
from porter.validate.stand_ins.models.stand_in import make_stand_in

from .long import long, mostly_long
from .outside import EXAMPLES

pytestmark = pytest.mark.real

WORDS = "a port of the recipe trains each token on eight chips and reads back loss mesh rank alpha".split()


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `load_dataset` reads: conversations of one to two turns."""
    folder = tmp_path_factory.mktemp("chat")
    dice = random.Random(3)

    def said(role: str) -> dict[str, str]:
        return {"role": role, "content": " ".join(dice.choices(WORDS, k=dice.randint(3, 20)))}

    rows = [[said(role) for _ in range(dice.randint(1, 2)) for role in ("user", "assistant")] for _ in range(130)]
    (folder / "train.jsonl").write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows), "utf-8")
    return folder


def losses_agree(verdict: Verdict, steps: int = 30) -> bool:
    check = next(check for check in verdict.checks if check.name == "loss of every step")
    return len(verdict.port_losses) >= steps and check.measured is not None and check.measured <= 1e-5


@pytest.mark.parametrize("steps", mostly_long([8, 30], short=[8]))
def test_trl_sft_script_as_installed(chat: Path, tmp_path: Path, steps: int) -> None:
    package = find_spec("trl")
    assert package is not None and package.origin is not None
    source = Path(package.origin).parent / "scripts" / "sft.py"
    port = port_file(source)
    assert (port.status, [row for row in port.fields if row.fate == "manual"]) == ("ported", [])
    script = tmp_path / "sft_tunix.py"
    script.write_bytes(port.data)
    model = make_stand_in(tmp_path / "model", "Qwen/Qwen3-0.6B", "qwen3", kv_heads=8)
    flags = f"""--model_name_or_path {model} --dataset_name {chat} --output_dir {tmp_path / "out"} --use_peft --lora_r 8
        --lora_alpha 16 --lora_target_modules all-linear --learning_rate 2e-3 --num_train_epochs 4
        --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --warmup_steps 4 --weight_decay 0.01
        --lr_scheduler_type cosine --max_length 128 --eos_token <|im_end|> --report_to none"""
    verdict = validate(source, script, Options(steps=steps, mesh=(8, 1), meshes=(), arguments=tuple(flags.split())))
    assert verdict.equal, verdict.to_json()
    assert losses_agree(verdict, steps)


@long
def test_the_papers_recipe_on_gemma_3(tmp_path: Path) -> None:
    source = EXAMPLES / "sft_lora_gemma3.py"
    port = port_file(source, PortOptions(launch_config=EXAMPLES / "fsdp.yaml"))
    assert port.status == "ported"
    assert len(port.after.splitlines()) <= 1.5 * len(port.before.splitlines())
    script = tmp_path / "tunix.py"
    script.write_bytes(port.data)
    verdict = validate(source, script, Options(steps=30, mesh=(8, 1), meshes=((2, 4), (1, 8)), processes=2))
    assert verdict.equal, verdict.to_json()
    assert losses_agree(verdict) and len(verdict.meshes) == 2

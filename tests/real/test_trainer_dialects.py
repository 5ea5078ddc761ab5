"""Scripts on transformers' Trainer in the styles that people write: ported as they are, trained by Tunix, compared."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.options import Options
from porter.validate.run import run_port, run_source, validate

from .long import long, mostly_long
from .outside import DIALECTS as SCRIPTS
from .outside import case

pytestmark = pytest.mark.real

WORDS = "a port of the recipe trains each token on eight chips and reads back loss mesh rank alpha".split()
# script, or case of a rule → the arguments it is run with (DATA: a file of instructions and outputs)
DIALECTS = {
    "trainer_alpaca_lora": "DATA",
    "transformers/cases/trainer_supervised_dataset": "--model_name_or_path Qwen/Qwen3-0.6B --data_path DATA "
    "--output_dir OUT --num_train_epochs 2 --learning_rate 1e-3 --per_device_train_batch_size 3 "
    "--gradient_accumulation_steps 2 --weight_decay 0.1 --lr_scheduler_type cosine "
    "--warmup_ratio 0.2 --logging_steps 1 --save_strategy no --report_to none",
    "trainer_clm_blocks": "--train_file DATA",
    "trainer_masked_prompt": "",
    "trainer_padded_rows": "",
    "trainer_language_modeling": "",
    "torch/cases/loop_plain": "",
    "torch/cases/loop_epochs": "",
    "loop_accelerate": "--batch-size 3 --accumulate 2",
    "loop_flags": "--clip 0.3",
    "loop_while": "",
    "loop_stacked": "",
    "loop_tuples": "",
}
SHORT = ("transformers/cases/trainer_supervised_dataset", "loop_accelerate")


@pytest.fixture(scope="module")
def instructions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "instructions.jsonl"
    dice = random.Random(5)
    rows = [
        {name: " ".join(dice.choices(WORDS, k=dice.randint(2, 12))) for name in ("instruction", "output")}
        for _ in range(41)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


@pytest.mark.parametrize("name", mostly_long(DIALECTS, short=SHORT))
def test_port_trains_as_the_source(name: str, instructions: Path, tiny: Callable[..., Path], tmp_path: Path) -> None:
    source = case(name) / "before.py" if "/" in name else SCRIPTS / f"{name}.py"
    port = port_file(source)
    assert (port.status, [row for row in port.fields if row.fate == "manual"]) == ("ported", [])
    script = tmp_path / "port.py"
    script.write_bytes(port.data)
    arguments = DIALECTS[name].replace("DATA", str(instructions)).replace("OUT", str(tmp_path / "out")).split()
    data = None if "DATA" in DIALECTS[name] else instructions
    model = tiny("qwen3", num_hidden_layers=1) if name in SHORT else None
    options = Options(steps=4, mesh=(2, 2), devices=4, meshes=(), data=data, arguments=tuple(arguments), model=model)

    verdict = validate(source, script, options)

    differing = {check.name: check.detail for check in verdict.checks if check.status == "differs"}
    assert not differing, verdict.to_json()
    loss = next(check for check in verdict.checks if check.name == "loss of every step")
    assert loss.measured is not None and loss.measured <= 1e-5


# text in the port of trainer_masked_prompt, its replacement
MISTAKES = {
    "the prompt is trained": ('labels = [-100] * len(instruction["input_ids"])', 'labels = instruction["input_ids"]'),
    "rows in their own order": ("    seed=42,  # the GPU run's order\n)", '    sampling="sequential",\n)'),
}


@long
def test_mistakes_show_in_the_first_batch(instructions: Path, tmp_path: Path) -> None:
    source = SCRIPTS / "trainer_masked_prompt.py"
    options = Options(steps=1, mesh=(2, 2), devices=4, data=instructions)
    trace, _ = run_source(source, options, str(tmp_path), lambda line: None)
    for name, (old, new) in MISTAKES.items():
        text = port_file(source).after
        assert text.count(old) == 1, name
        script = tmp_path / f"port_{len(name)}.py"
        script.write_text(text.replace(old, new), "utf-8")
        port = run_port(script, options, str(tmp_path), lambda line: None)
        differing = [check.name for check in checks.compare(trace, port, FLOAT32) if check.status == "differs"]
        assert differing[0] == checks.BATCHES, name

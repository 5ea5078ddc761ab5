"""What the clock or a generator gives a config is asked for once, as where the config was made."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
import random, time, uuid
from datetime import datetime
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer


def run_folder():
    return f"out/{time.strftime('%H%M%S')}"


now = time.time()
rows = load_dataset("x", split="train")
@made@
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=@args@, train_dataset=rows)
trainer.train()
trainer.save_model()
"""


@pytest.mark.parametrize(
    ("keywords", "drawn"),
    [
        ('output_dir=f"out/{datetime.now():%H%M}"', "datetime.now()"),
        ('output_dir="out/" + datetime.now().strftime("%H%M")', "datetime.now()"),
        ('output_dir=f"out/{uuid.uuid4().hex}"', "uuid.uuid4()"),
        ("output_dir=run_folder()", "run_folder()"),
        ('output_dir="out", seed=random.randint(0, 9)', "random.randint(0, 9)"),
    ],
)
@pytest.mark.parametrize("inline", [True, False])
def test_what_a_config_draws_is_drawn_once(keywords: str, drawn: str, inline: bool) -> None:
    config = f"SFTConfig({keywords}, max_steps=5)"
    text = SCRIPT.replace("@made@", "" if inline else f"args = {config}").replace(
        "@args@", config if inline else "args"
    )
    found = port(text)
    lines = [line for line in found.after.splitlines() if not line.startswith("def ")]
    assert found.status == "ported" and "\n".join(lines).count(drawn) == 1, found.after


@pytest.mark.parametrize("keywords", ['output_dir=f"out/{now}"', 'output_dir="out", run_name=f"{datetime.now()}"'])
def test_what_is_asked_for_in_one_place_stays_there(keywords: str) -> None:
    found = port(SCRIPT.replace("@made@", "").replace("@args@", f"SFTConfig({keywords}, max_steps=5)"))
    assert found.status == "ported" and "SFTConfig(" not in found.after


def test_a_name_that_the_script_reads_is_drawn_once() -> None:
    made = "args = SFTConfig('out', run_name=f'{datetime.now()}', report_to='wandb')\nprint(args.run_name)"
    assert port(SCRIPT.replace("@made@", made).replace("@args@", "args")).after.count("datetime.now()") == 1

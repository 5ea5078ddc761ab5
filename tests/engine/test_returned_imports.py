"""Functions that import libraries and give them back: the names are what was imported, and go with their last use."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """import os
from datasets import load_dataset


def libraries():
    {imports}
    return {given}


def main():
    {taken} = libraries()
    trainer = {trainer}(
        "Qwen/Qwen3-0.6B",
        args={config}("out"{keywords}),
        train_dataset=load_dataset("x", split="train"),
        processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
    )
    trainer.train()


{after}main()
"""
BOTH = "from transformers import AutoTokenizer\n    from trl import SFTConfig, SFTTrainer"
LIBRARY = "import trl\n    from transformers import AutoTokenizer"


def script(keywords: str = "", after: str = "", **own: str) -> str:
    names = {
        "imports": BOTH,
        "given": "SFTConfig, SFTTrainer, AutoTokenizer",
        "trainer": "SFTTrainer",
        "config": "SFTConfig",
    }
    names["taken"] = names["given"]
    return SCRIPT.format(keywords=keywords, after=after, **{**names, **own})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (script(), "def libraries():\n    from transformers import AutoTokenizer\n    return AutoTokenizer\n"),
        (
            script(taken="Config, Trainer, AutoTokenizer", trainer="Trainer", config="Config"),
            "    AutoTokenizer = libraries()\n",
        ),
        (
            script(
                imports=LIBRARY, given="trl, AutoTokenizer", taken="trl, AutoTokenizer", trainer="trl.SFTTrainer"
            ).replace("args=SFTConfig", "args=trl.SFTConfig"),
            "    AutoTokenizer = libraries()\n",
        ),
        (
            script(keywords=", learning_rate=float(os.environ['RATE']), save_strategy=os.environ['SAVE']"),
            "    SFTConfig, AutoTokenizer = libraries()\n",
        ),
    ],
)
def test_what_is_still_used_is_given_back(text: str, left: str) -> None:
    found = port(text)
    assert found.status == "ported" and left in found.after, found.after
    assert "import trl" not in found.after and "from trl" not in found.after and "TODO" not in found.after


def test_the_function_goes_with_its_last_name() -> None:
    text = script(
        imports="from trl import SFTConfig, SFTTrainer", given="SFTConfig, SFTTrainer", taken="SFTConfig, SFTTrainer"
    )
    after = port(f"from transformers import AutoTokenizer\n{text}").after
    assert "libraries" not in after and "rt.SFTBatches(" in after


def test_a_function_that_is_called_twice_stays_and_is_named() -> None:
    found = port(script(after="print(libraries())\n"))
    assert found.status == "partial" and "from trl import" in found.after

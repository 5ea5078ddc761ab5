"""Classes of an older release that take the place of imports: each made once, beside one import of what makes them."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
import json
from datasets import load_dataset
IMPORTS

rows = load_dataset("some/rows", split="train")


def train(held=None, size=8):
    print(json, LoraConfig(r=size))
    args = SFTConfig("out", max_seq_length=512, eval_strategy="steps" if held is not None else "no")
    trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args=args, train_dataset=rows, eval_dataset=held)
    trainer.train()


train()
"""
MAKES = "from porter.runtime.arguments import trl_arguments\n"


def after(imports: str) -> str:
    return port(SCRIPT.replace("IMPORTS", imports)).after


@pytest.mark.parametrize(
    "imports",
    [
        "from peft import LoraConfig, PeftConfig\nfrom trl import SFTConfig, SFTTrainer\nfrom peft import LoraConfig",
        "from peft import LoraConfig\n\n# ours\nfrom trl import SFTConfig, SFTTrainer\nfrom peft import LoraConfig",
        "from trl import SFTConfig, SFTTrainer\n\nTRIES = 3\nfrom peft import LoraConfig\nfrom peft import LoraConfig",
        "from trl import SFTConfig, SFTTrainer\nfrom peft import LoraConfig\n\nTRIES = 3\nfrom trl import SFTConfig",
    ],
)
def test_a_class_is_made_once_by_what_is_imported_once(imports: str) -> None:
    text = after(imports)
    made = [line for line in text.splitlines() if "= trl_arguments(" in line]
    assert text.count(MAKES) == 1 and text.index(MAKES) < text.index("= trl_arguments(")
    names = [name for line in made for name in line.partition(" = ")[0].split(", ")]
    assert sorted(names) == ["LoraConfig", "SFTConfig"]


def test_imports_that_stand_together_become_one_group() -> None:
    front = "from peft import LoraConfig, PeftModel\nfrom transformers import AutoTokenizer, BitsAndBytesConfig\n"
    text = after(f"{front}print(AutoTokenizer, BitsAndBytesConfig())\nfrom trl import SFTConfig, SFTTrainer")
    made = 'LoraConfig, BitsAndBytesConfig = trl_arguments("0.19.1", "LoraConfig", "BitsAndBytesConfig")\n'
    assert f"import load_dataset\nfrom transformers import AutoTokenizer\n\n{MAKES}\n{made}\nprint(" in text


def test_a_try_needs_no_import_of_its_own_but_makes_its_class() -> None:
    tried = "try:\n    from peft import LoraConfig\nexcept ImportError:\n    LoraConfig = None"
    text = after(f"from trl import SFTConfig, SFTTrainer\n\n{tried}")
    assert '\ntry:\n    LoraConfig = trl_arguments("0.19.1", "LoraConfig")\n' in text and text.count(MAKES) == 1
    above = after(f"{tried}\nfrom trl import SFTConfig, SFTTrainer")
    assert f"try:\n    {MAKES}    LoraConfig = " in above and above.count(MAKES) == 2


def test_a_name_that_was_deleted_is_made_again() -> None:
    first = "TRIES = 3\nfrom peft import LoraConfig\nprint(LoraConfig())\ndel LoraConfig\n"
    text = after(f"from trl import SFTConfig, SFTTrainer\n{first}from peft import LoraConfig")
    assert text.count('LoraConfig = trl_arguments("0.19.1", "LoraConfig")') == 2 and text.count(MAKES) == 1

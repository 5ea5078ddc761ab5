"""Configs and datasets that the script makes by condition stay conditions."""

from __future__ import annotations

import pytest

from .porting import PLAIN, check_becomes, port

HEAD = """\
import sys
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

rows = load_dataset('x', split='train')
"""
TAIL = """\
model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', quantization_config=make_bits(len(sys.argv)))
lora = make_lora(len(sys.argv))
trainer = SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, peft_config=lora)
trainer.train()
"""
BITS = "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')"
LORA = "LoraConfig(r=8, target_modules=['q_proj'])"
CHOICES = [
    "    if not asked:\n        return None\n    return {0}\n",
    "    if asked:\n        return {0}\n",
    "    if not asked:\n        return\n    else:\n        return {0}\n",
]
ALWAYS = ["    return {0}\n", "    if asked:\n        return {0}\n    else:\n        raise ValueError\n"]


def script(body: str) -> str:
    made = [f"def make_{name}(asked):\n{body.format(config)}" for name, config in (("bits", BITS), ("lora", LORA))]
    return HEAD + "\n".join(made) + TAIL


@pytest.mark.parametrize("body", CHOICES)
def test_what_may_be_none_is_asked_when_the_script_runs(body: str) -> None:
    check_becomes(
        script(body), "quantization=make_bits(len(sys.argv)))", "if lora is not None:\n    model = rt.apply_peft("
    )


@pytest.mark.parametrize("body", ALWAYS)
def test_what_is_always_made_is_not(body: str) -> None:
    check_becomes(script(body), 'quantization="nf4"', "\nmodel = rt.apply_peft(model, lora, mesh, seed=42)")


@pytest.mark.parametrize(
    ("before", "given", "guarded"),
    [
        ("held = load_dataset('y', split='test')\n", "held", False),
        ("held = None\nif len(rows) > 9:\n    held = load_dataset('y', split='test')\n", "held", True),
        ("held = rows if len(rows) > 9 else None\n", "held", True),
        ("held = load_dataset('y', split='test')\n", "held if len(rows) > 9 else None", True),
    ],
)
def test_rows_that_may_be_none_are_asked_first(before: str, given: str, guarded: bool) -> None:
    text = PLAIN.replace("trainer = ", f"{before}trainer = ", 1).replace(
        "SFTConfig('out')", "SFTConfig('out', eval_strategy='epoch')"
    )
    found = port(text.replace("train_dataset=rows", f"train_dataset=rows, eval_dataset={given}"))
    assert found.status == "ported"
    assert ("is not None:\n    eval_batches = batches.evaluation(" in found.after) == guarded, found.after


@pytest.mark.parametrize(
    ("test", "guarded"),
    [
        ("if held is not None:\n    print(trainer.evaluate())\n", True),
        ("if held:\n    print(trainer.evaluate())\n", True),
        ("scores = trainer.evaluate() if held else {}\nprint(scores)\n", True),
        ("if len(rows) > 9 and held is not None:\n    print(trainer.evaluate())\n", True),
        ("if len(held) > 9:\n    print(trainer.evaluate())\n", False),
        ("print(trainer.evaluate())\n", False),
    ],
)
def test_rows_of_elsewhere_that_the_script_tests_are_asked_first(test: str, guarded: bool) -> None:
    """Without eval_strategy a trainer takes None for them; with one it ends at its start."""
    text = PLAIN.replace("trainer = ", "import own\nrows, held = own.both()\ntrainer = ", 1)
    text = text.replace("train_dataset=rows", "train_dataset=rows, eval_dataset=held") + test
    found = port(text)
    assert ("if held is not None:\n    eval_batches = batches.evaluation(" in found.after) == guarded, found.after
    asked = port(text.replace("SFTConfig('out')", "SFTConfig('out', eval_strategy='epoch')"))
    assert "if held is not None:\n    eval_batches" not in asked.after


@pytest.mark.parametrize("evaluates", [False, True])
def test_what_the_run_never_evaluates_is_not_given_to_training(evaluates: bool) -> None:
    text = PLAIN.replace("SFTConfig('out')", "SFTConfig('out', eval_strategy=('no', 'epoch')[len(rows) > 9])")
    text = text.replace("train_dataset=rows", "train_dataset=rows, eval_dataset=load_dataset('y', split='test')")
    after = port(text + "print(trainer.evaluate())\n" * evaluates).after
    guard = ' and training_args.eval_strategy != "no"'
    assert (f"if eval_dataset is not None{guard}:\n    eval_batches = " in after) is not evaluates, after
    given = 'eval_batches if training_args.eval_strategy != "no" else None' if evaluates else "eval_batches"
    assert f"    trainer.train(batches, {given})\n" in after, after


@pytest.mark.parametrize(
    "made",
    [
        "def load(name):\n    import trl\n    return getattr(trl, name), trl.GRPOConfig\n\n"
        "GRPOTrainer, GRPOConfig = load('GRPOTrainer')",
        "import trl\nGRPOTrainer, GRPOConfig = getattr(trl, 'GRPOTrainer'), getattr(trl, 'GRPOConfig')",
        "import trl\nGRPOTrainer = getattr(trl, 'GRPOTrainer', None)\nGRPOConfig = trl.GRPOConfig",
    ],
)
def test_a_class_that_is_chosen_when_the_script_runs_is_no_nothing(made: str) -> None:
    text = f"from datasets import load_dataset\n{made}\ntrainer = GRPOTrainer(model='x', args=GRPOConfig('out'))\n"
    found = port(text + "trainer.train()\n")
    assert found.status == "unsupported" and [finding.rule for finding in found.findings] == ["TP004"], found.findings


def test_a_class_of_the_file_that_takes_a_trainers_name_is_no_nothing() -> None:
    method = "    def train(self):\n        self.trainer = SFTTrainer(model=1)\n        self.trainer.train()\n"
    found = port(f"from trl import SFTTrainer\n\nclass SFTTrainer:\n{method}\nSFTTrainer().train()\n")
    assert found.status == "unsupported" and [finding.rule for finding in found.findings] == ["TP004"], found.findings


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "from llamafactory.train.tuner import run_exp\n\nrun_exp({'stage': 'sft'})\n",
            "llamafactory.train.tuner.run_exp",
        ),
        ("from axolotl.train import train\n\ntrain(cfg=1)\n", "axolotl.train.train"),
        ("from nemo.collections import llm\n\nllm.finetune(model=1)\n", "nemo.collections.llm.finetune"),
        ("from swift.llm import SftArguments, sft_main\n\nsft_main(SftArguments())\n", "swift.llm.sft_main"),
    ],
)
def test_a_framework_that_trains_is_no_nothing(line: str, name: str) -> None:
    found = port(line)
    assert (found.status, found.after) == ("unsupported", line)
    (finding,) = found.findings
    assert finding.rule == "TP004" and finding.message.startswith(f"{name} trains by a configuration of its own")
    assert port(f"{line.partition(chr(10))[0]}\n").status == "unchanged"  # imported, and not called


@pytest.mark.parametrize("library", ["unsloth", "transformers", "peft"])
def test_a_trainer_that_the_library_lacks_is_said_to_end_the_run(library: str) -> None:
    found = port(f"from {library} import SFTTrainer\n\nSFTTrainer(model=1).train()\n")
    (finding,) = found.findings
    assert finding.rule == "TP004" and finding.message.endswith("which has no such class: a run ends at its import.")
    assert finding.fix == "Import it from where it is: from trl import SFTTrainer."


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("from ray.train.torch import TorchTrainer", "Write that training as a script of TRL or transformers"),
        ("from .mine import TorchTrainer", "Port the folder that it stands in"),
    ],
)
def test_a_trainer_of_another_library_is_no_folders(line: str, fix: str) -> None:
    found = port(f"import torch\n{line}\n\nTorchTrainer(model=1).train()\n")
    (finding,) = found.findings
    assert finding.rule == "TP004" and finding.fix.startswith(fix)


@pytest.mark.parametrize(
    ("name", "trains"),
    [
        ("DistillTrainer", True),
        ("TrainerForgetting", True),
        ("CustomTrainerV2", True),
        ("TrainerCallback", False),
        ("MyTrainerConfig", False),
        ("TrainersGuild", False),
    ],
)
def test_a_trainer_of_a_module_is_known_by_its_name(name: str, trains: bool) -> None:
    found = port(f"from src.own import {name}\n\n{name}(model=1).train()\n")
    assert found.status == ("unsupported" if trains else "unchanged")
    assert [finding.message.partition(" is ")[0] for finding in found.findings] == [name] * trains

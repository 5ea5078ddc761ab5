"""Classes of the file with the name of what they extend: `class TrainingArguments(TrainingArguments)`."""

from .porting import port

ARGUMENTS = """\
from dataclasses import dataclass
from datasets import load_dataset
from transformers import HfArgumentParser{imported}
from trl import SFTTrainer{trl}


@dataclass
class {name}({base}):
    learning_rate: float = 1e-4


(args,) = HfArgumentParser(({name},)).parse_args_into_dataclasses()
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("x/y", split="train"))
trainer.train()
"""
TRAINER = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer


class SFTTrainer(SFTTrainer):
    {body}


trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=load_dataset("x/y", split="train"))
trainer.train()
"""


def test_arguments_extend_the_runtimes_class() -> None:
    text = ARGUMENTS.format(name="SFTConfig", base="SFTConfig", imported="", trl=", SFTConfig")
    found = port(text)
    assert found.status == "ported", found.findings
    assert "from porter.runtime.arguments import SFTConfig\n" in found.after and "trl" not in found.after
    older = port(text, source_trl="0.19.1").after
    assert 'SFTConfig = trl_arguments("0.19.1", "SFTConfig")\n\n\n@dataclass\nclass SFTConfig(SFTConfig):' in older


def test_a_trainer_of_its_base_s_name_is_read_as_any_other() -> None:
    found = port(TRAINER.format(body="def compute_loss(self, model, inputs):\n        return 0.5 * inputs"))
    assert found.status == "unsupported"
    assert any("a loss of its own (compute_loss)" in finding.message for finding in found.findings)
    assert "PeftTrainer(" in port(TRAINER.format(body="tag = 1")).after

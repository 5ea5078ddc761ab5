"""A model that a trainer gets from a dictionary or a list of models: it is torch's, and no name of one."""

import pytest

from .porting import port

SCRIPT = """\
import sys
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

NAMES = {{"small": "Qwen/Qwen3-0.6B", "large": "Qwen/Qwen3-1.7B"}}

class Experiment:
    def __init__(self):
        self.loaded = {{}}
        self.listed = []

    def load(self, name, path):
        try:
            model = AutoModelForCausalLM.from_pretrained(path)
            self.loaded[name] = model
            self.listed.append(model)
        except Exception as error:
            print(error)

    def train(self, name):
        try:
{lines}
            trainer.train()
        except Exception as error:
            print(error)

experiment = Experiment()
experiment.load("small", NAMES["small"])
experiment.train("small")
"""
TRAINER = "trainer = SFTTrainer(model={}, args=SFTConfig('out'), train_dataset=load_dataset('a/b', split='train'))"


def ported(*lines: str):
    return port(SCRIPT.format(lines="\n".join(" " * 12 + line for line in lines)))


@pytest.mark.parametrize(
    "lines",
    [
        ("model = self.loaded[name]", TRAINER.format("model")),
        (TRAINER.format("self.loaded[name]"),),
        ("chosen = self.loaded[name] if name else None", "model = chosen", TRAINER.format("model")),
        ("for key, model in self.loaded.items():", "    " + TRAINER.format("model")),
        ("for model in self.listed:", "    " + TRAINER.format("model")),
    ],
)
def test_a_model_out_of_a_container_is_an_error_and_not_loaded_by_its_object(lines: tuple[str, ...]) -> None:
    found = ported(*lines)
    (said,) = [each for each in found.findings if "one of the models in self." in each.message]
    assert said.severity == "error" and said.line and "rt.load_model(" not in found.after


def test_a_name_out_of_a_dictionary_of_names_is_one() -> None:
    found = ported("model = NAMES[name]", TRAINER.format("model"))
    assert "rt.load_model(model, mesh" in found.after

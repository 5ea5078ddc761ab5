"""DPO's loss in the port: what the run decides of it is put together when it runs."""

import pytest

from porter.runtime.losses.dpo_losses import dpo_loss
from tests.engine.porting import port

SCRIPT = """\
import argparse
from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--rpo_alpha", type=float, default=None)
parser.add_argument("--loss_type", default="sigmoid")
args = parser.parse_args()
trainer = DPOTrainer(
    "Qwen/Qwen3-0.6B",
    args=DPOConfig("out", {given}),
    train_dataset=load_dataset("a/b", split="train"),
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("rpo_alpha=0.5", 'loss_type=["sigmoid", "sft"]'),
        ("rpo_alpha=args.rpo_alpha", "rpo_alpha=args.rpo_alpha"),
        ("rpo_alpha=0.5, loss_type=args.loss_type", "loss_type=args.loss_type"),
        ("rpo_alpha=args.rpo_alpha, loss_type=args.loss_type", "loss_type=args.loss_type"),
    ],
)
def test_rpo_alpha_and_the_loss_beside_it(given: str, written: str) -> None:
    found = port(SCRIPT.format(given=given), source_trl="0.15.2")
    assert written in found.after and found.status == "ported", found.findings
    assert ("loss_weights" in found.after) == (given == "rpo_alpha=0.5")
    assert not [each for each in found.findings if "no line of the port" in each.message]


@pytest.mark.parametrize(
    ("given", "written"),
    [("f_alpha_divergence_coef=0.7", True), ('f_divergence_type="alpha_divergence"', True), ("beta=0.2", False)],
)
def test_the_default_of_alpha_is_written_beside_its_divergence_alone(given: str, written: bool) -> None:
    found = port(SCRIPT.format(given=given), source_trl="0.15.2")
    assert ("f_alpha_divergence_coef" in found.after) == written and found.status == "ported"
    assert not [each for each in found.findings if "logits/chosen" in each.message]  # the port logs them


def test_an_rpo_alpha_of_none_is_no_loss() -> None:
    assert dpo_loss(rpo_alpha=None) == dpo_loss()
    assert dpo_loss(rpo_alpha=0.5, loss_type="ipo") == dpo_loss(loss_type=["ipo", "sft"], loss_weights=[1.0, 0.5])

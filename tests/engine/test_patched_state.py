"""A replaced state_dict: what the GPU run's PEFT saved then, which the port doesn't repeat, is said."""

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_module

from .porting import sft_script

PATCH = """old_state_dict = model.state_dict
model.state_dict = (lambda self, *_, **__: get_peft_model_state_dict(self, old_state_dict())).__get__(
    model, type(model)
)
trainer.train()
model.save_pretrained("out")"""


def said(folder: Path, peft: str, config: str = "", after: str = PATCH) -> list[str]:
    (folder / "requirements.txt").write_text(f"transformers==4.44.0\n{peft}\n")
    text = (
        sft_script(
            imports="from peft import LoraConfig, get_peft_model, get_peft_model_state_dict",
            between='model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj"]))',
            config=config,
            trainer=', eval_dataset=load_dataset("some/rows", split="test")',
            after=after,
        )
        .replace('dtype="bfloat16"', "")
        .replace("processing_class", "tokenizer")
        .replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B")
    )
    ported = port_module(parse_module(text.encode(), str(folder / "train.py")), Options())
    assert "state_dict" not in ported.after.replace("_state_dict", ""), ported.after
    return [finding.message for finding in ported.findings if "without tensors" in finding.message]


@pytest.mark.parametrize(
    ("peft", "release"), [("peft==0.9.0", "0.9.0"), ("peft==0.19.1", "0.19.1"), ("", "0.12.0"), ("peft==0.20.0", "")]
)
def test_an_empty_adapter_is_said_for_the_releases_that_write_one(tmp_path: Path, peft: str, release: str) -> None:
    found = said(tmp_path, peft)
    assert [message.split()[1] for message in found] == ([release] if release else [])
    assert all(message.endswith("the port saves what is trained.") for message in found)


def test_so_is_a_best_checkpoint_that_gives_nothing_back(tmp_path: Path) -> None:
    best = ', eval_strategy="steps", eval_steps=2, save_steps=2, load_best_model_at_end=True'
    assert said(tmp_path, "peft==0.9.0", best)[0].endswith("and goes back to the best.")


def test_nothing_is_said_without_the_patch(tmp_path: Path) -> None:
    assert said(tmp_path, "peft==0.9.0", after='trainer.train()\nmodel.save_pretrained("out")') == []

"""Models, weights and tokenizers that a script loads and that are not there: what stands in for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.substitutes import Substitutes

from .observed import Project


def test_a_model_folder_of_the_project_that_is_not_there_stands_in_alike_on_both_sides(tmp_path: Path) -> None:
    """Its absolute path is another one in each script's copy of the project."""
    made = tmp_path / "stand_in" / "models--sft"
    made.mkdir(parents=True)
    (made / "stand_in.json").write_text(json.dumps({"family": "qwen2", "reason": ""}))
    for side in ("source", "port"):
        substitutes = Substitutes(Settings(work=str(tmp_path)), side, [], tmp_path / f"{side}-x")
        assert substitutes.model(str(tmp_path / f"{side}-x" / "copy" / "models" / "sft")) == str(made)
        assert substitutes.model(str(made)) == str(made)
        assert substitutes.notes == ["a tiny random qwen2 model stood in for models/sft"]


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4000000000\n"
INDEX = json.dumps({"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}})


@pytest.mark.parametrize(
    ("files", "stands"),
    [
        ({"model.safetensors": POINTER}, True),
        ({"model.safetensors.index.json": INDEX, "model-1-of-2.safetensors": "x"}, True),
        ({"model.safetensors.index.json": INDEX, "pytorch_model.bin": "x"}, False),  # whole in the other form
        ({"model.safetensors.index.json": "[]", "model.safetensors": "x"}, False),
        ({"model.safetensors": "x"}, False),
        ({"tokenizer.json": "{}"}, True),  # all but the weights, which are fetched before the script runs
        ({"tokenizer.json": "{}", "config.json": ""}, False),  # a tokenizer's folder
    ],
)
def test_a_model_folder_without_its_weights_has_a_stand_in(
    tmp_path: Path, files: dict[str, str], stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repositories keep config and index, and the weights elsewhere: the source ended in safetensors."""
    local = tmp_path / "mistral"
    local.mkdir()
    for name, text in {"config.json": "{}", **files}.items():
        if text:
            (local / name).write_text(text)
    substitutes = Substitutes(Settings(work=str(tmp_path / "work")), "source", [], tmp_path / "work" / "source")
    monkeypatch.setattr(substitutes, "_stand_in", lambda name, config: ("made", "mistral", ""))
    assert substitutes.model(str(local)) == ("made" if stands else str(local))


@pytest.mark.real
def test_what_the_tool_itself_asks_for_is_not_the_scripts_question(project: Project) -> None:
    """The script would end without what that line gives: a stand-in's own answer was taken for its data file."""
    text = (
        "from transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained('org/llama-2-7b-hf')\n"
        "assert tokenizer != None\nprint(tokenizer.eos_token)\n"
    )
    run = project.run(text)
    assert run.stdout.strip() == "</s>", run.stderr


@pytest.mark.real
def test_weights_of_the_scripts_own_module_that_are_not_there(project: Project) -> None:
    """A reward model's: it scores alike on both sides, whatever was drawn before."""
    lines = (
        "import os, sys, torch",
        "torch.rand(len(sys.argv[0]))",
        "scorer = torch.nn.Sequential(torch.nn.Linear(3, 1))",
        "held = torch.load('/nowhere/best.pth', map_location='cpu')",
        "print(scorer.load_state_dict(held['model']))",
        "print(scorer(torch.ones(3)).item())",
        "print(scorer.load_state_dict({name[7:]: value for name, value in held.items()}).missing_keys)",
        "try:\n    torch.load('other.pth')\nexcept FileNotFoundError:\n    print('begins anew')",
        "def rows(): return torch.load('rows.pt')",
        "try:\n    rows()\nexcept FileNotFoundError:\n    print('no rows')",
        "def read(): print(rows())",
        "try:\n    len('')\n    read()\nexcept KeyError:\n    print('never')\nexcept OSError:\n    print('named')",
        "torch.save(scorer.state_dict(), 'mine.pth')",
        "scorer.load_state_dict(torch.load('mine.pth'))",
    )
    found = []
    for side in ("source", "port"):
        run = project.run("\n".join([*lines, f"# {side}"]), side)
        found.append(run.stdout.splitlines())
        assert "random weights stood in for /nowhere/best.pth, which is not there, in Sequential" in run.stderr
    assert found[0] == found[1]
    assert found[0][0] == "<All keys matched successfully>" and found[0][2:] == [
        "[]",
        "begins anew",
        "no rows",
        "named",
    ]


def test_a_folder_around_the_copy_has_one_name_on_both_sides(tmp_path: Path) -> None:
    settings = Settings(work=str(tmp_path))
    names = {
        Substitutes(settings, side, [], None).missing.name_of(f"{tmp_path}/{side}-7/{inner}models/llama")
        for side in ("source", "port")
        for inner in ("", "copy/")
    }
    assert names == {"models/llama"}

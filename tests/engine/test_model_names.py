"""A model that the port leaves to its run, and that Tunix has not: said where a default or a file beside tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.source.project.model_names import usual_value

PHI = "microsoft/Phi-3-mini-4k-instruct"
SCRIPT = """from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
from datasets import load_dataset
{before}
trainer = SFTTrainer(
    model=AutoModelForCausalLM.from_pretrained({name}),
    args=SFTConfig(output_dir="out"),
    train_dataset=load_dataset("a/b", split="train"),
    processing_class=AutoTokenizer.from_pretrained({name}),
)
trainer.train()
"""
WAYS = {
    "args.model_name": "import argparse\np = argparse.ArgumentParser()\n"
    "p.add_argument('-m', '--model-name', default='{model}')\nargs = p.parse_args()",
    "cfg.model_name": "from dataclasses import dataclass, field\n@dataclass\nclass Config:\n"
    "    model_name: str = field(default='{model}', metadata={{}})\ncfg = Config()",
    "settings.model": "class Settings:\n    def __init__(self):\n        self.model = '{model}'\nsettings = Settings()",
    "CFG['model']['name']": "import yaml\nwith open('config.yaml') as f:\n    CFG = yaml.safe_load(f)",
    "CFG.get('model').get('name')": "import json\nCFG = json.load(open('config.json'))",
    "MODEL_ID": "from conf import MODEL_ID",
    "conf.MODEL_ID": "import conf",
    "MODELS[args.size]": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--size', default='small')\n"
    "args = p.parse_args()\nMODELS = {{'small': '{model}', 'large': 'Qwen/Qwen3-8B'}}",
    "chosen['id']": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--size', default='small')\n"
    "args = p.parse_args()\nMODELS = {{'small': {{'id': '{model}', 'length': 512}}}}\nchosen = MODELS[args.size]",
    "path": "import os\npath = 'cache/snapshots/1d0f68'\nif not os.path.exists(path):\n    path = '{model}'",
    "MODEL": "import os\nMODEL = os.environ.get('MODEL', '{model}')",
}


def folder(path: Path, model: str) -> Path:
    (path / "conf.py").write_text(f"MODEL_ID = {model!r}\n")
    (path / "config.yaml").write_text(f"model:\n  name: {model}\n")
    (path / "config.json").write_text(f'{{"model": {{"name": "{model}"}}}}')
    return path / "train.py"


@pytest.mark.parametrize("name", WAYS)
def test_a_model_that_tunix_has_not_is_an_error(name: str, tmp_path: Path) -> None:
    script = folder(tmp_path, PHI)
    script.write_text(SCRIPT.format(before=WAYS[name].format(model=PHI), name=name))
    ported = port_file(script)
    assert ported.status == "partial"
    [error] = [finding for finding in ported.findings if finding.severity == "error"]
    assert error.message.startswith(PHI) and "doesn't have this model's family" in error.message

    for model in ("Qwen/Qwen3-4B", "me/my-own"):
        folder(tmp_path, model)
        script.write_text(SCRIPT.format(before=WAYS[name].format(model=model), name=name))
        assert port_file(script).status == "ported"


def test_what_is_meant_by_an_expression(tmp_path: Path) -> None:
    script = folder(tmp_path, PHI)
    parser = "p.add_argument('--model', default='a/b')\n"
    assert usual_value("args.model", parser, script) == ("a/b", "the default of --model")
    assert usual_value("args.model or 'c/d'", "", script) == ("c/d", "")
    assert usual_value("base", "def main(base=BASE):\n    pass\nBASE = 'a/b'", script) == ("a/b", "")
    for code, text in (
        ("args.model", parser + "p.add_argument('--model', default='c/d')\n"),
        ("name", "name = 'a/b'\nname = 'c/d'\n"),
        ("make()", "make = 'a/b'"),
        ("name", "name = name"),
        ("CFG['model']['name']", f"open({str(tmp_path / 'config.yaml')!r})"),
        ("name", "!pip install x"),
    ):
        assert usual_value(code, text, script) is None


def test_a_name_of_a_package_and_of_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from .names import BASE\n")
    (tmp_path / "pkg" / "names.py").write_text("BASE = 'a/b'\n")
    (tmp_path / "names.py").write_text("BASE = 'c/d'\n")
    script = tmp_path / "train.py"
    assert usual_value("BASE", "from pkg import BASE", script) == ("a/b", "names.py")
    assert usual_value("names.BASE", "from pkg import names", script) == ("a/b", "pkg/names.py")
    assert usual_value("BASE", "from names import BASE", script) == ("c/d", "names.py")
    assert usual_value("BASE", "from pkg.names.deeper import BASE", script) is None

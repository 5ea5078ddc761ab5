"""A model that a table of the project names: a dictionary of a module, what a function returns, a file of settings.

Of a family that Tunix has not, nothing was said: the port was called ported, and ended when it loaded the model.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.source.project.usual.held_settings import Launched
from porter.source.project.usual.model_names import usual_value, usual_values

from .named_models import PHI, SCRIPT

DICT = {"config.py": "CONFIG = {'model': {'name': 'THE_ID'}, 'id': 'THE_ID'}\n"}
YAML = "model:\n  name: THE_ID\n"
WAYS: dict[str, tuple[dict[str, str], str, str]] = {
    "a module's dictionary": (DICT, "from config import CONFIG", "CONFIG['model']['name']"),
    "by the module": (DICT, "import config", "config.CONFIG['model']['name']"),
    "by get": (DICT, "from config import CONFIG", "CONFIG.get('model').get('name')"),
    "a part of it": (DICT, "from config import CONFIG\npart = CONFIG['model']", "part['name']"),
    "a package's": (
        {"cfg/__init__.py": "", "cfg/base.py": DICT["config.py"]},
        "from cfg.base import CONFIG",
        "CONFIG['id']",
    ),
    "calls of dict": (
        {"config.py": "C = dict(model=dict(name='THE_ID'))\n"},
        "from config import C",
        "C['model']['name']",
    ),
    "a list": ({"config.py": "MODELS = ['THE_ID', 'gpt2']\n"}, "from config import MODELS", "MODELS[0]"),
    "a menu": ({"config.py": "MODELS = {'a': 'THE_ID'}\nKEY = 'a'\n"}, "from config import MODELS, KEY", "MODELS[KEY]"),
    "a function's": (
        {"config.py": "def get():\n    return {'id': 'THE_ID'}\n"},
        "from config import get\nc = get()",
        "c['id']",
    ),
    "a function's text": ({"config.py": "def name():\n    return 'THE_ID'\n"}, "from config import name", "name()"),
    "an Enum's": (
        {"config.py": "from enum import Enum\nclass M(Enum):\n    A = 'THE_ID'\n"},
        "from config import M",
        "M.A.value",
    ),
    "a function of its own": ({}, "def get():\n    return {'id': 'THE_ID'}\nc = get()", "c['id']"),
    "a method's, that an object holds": (
        {},
        "class T:\n    def __init__(self):\n        self.c = self.read()\n\n    def read(self):\n"
        "        c = {'model': {'name': 'THE_ID'}}\n        return c\nt = T()",
        "t.c['model']['name']",
    ),
    "a table that an object holds": (
        {"config.py": "class T:\n    def __init__(self):\n        self.c = {'id': 'THE_ID'}\n"},
        "from config import T\nt = T()",
        "t.c['id']",
    ),
    "set later": ({}, "c = {'lr': 1e-4}\nc['id'] = 'THE_ID'", "c['id']"),
    "of two": ({}, "a = {'id': 'THE_ID'}\nc = a | load()", "c['id']"),
    "with attributes": (
        {},
        "from easydict import EasyDict\nc = EasyDict({'model': {'name': 'THE_ID'}})",
        "c.model.name",
    ),
    "a namespace": ({}, "from types import SimpleNamespace\nc = SimpleNamespace(model='THE_ID')", "c.model"),
    "a text": ({}, 'import json\nc = json.loads(\'{"id": "THE_ID"}\')', "c['id']"),
    "either": ({}, "import sys\nname = 'THE_ID' if len(sys.argv) > 1 else 'gpt2'", "name"),
    "where nothing is set": (
        {"c.yaml": "lr: 1\n"},
        "import yaml\nc = yaml.safe_load(open('c.yaml'))",
        "c.get('id', 'THE_ID')",
    ),
    "a module's file": (
        {"a/odd.yaml": YAML, "own.py": "import yaml\ndef load():\n    return yaml.safe_load(open('a/odd.yaml'))\n"},
        "from own import load\nc = load()",
        "c['model']['name']",
    ),
    "an item of a module's file": (
        {
            "a/odd.yaml": YAML,
            "own.py": "import yaml\nP = 'a/odd.yaml'\nID = yaml.safe_load(open(P))['model']['name']\n",
        },
        "from own import ID",
        "ID",
    ),
    "a folder's file": (
        {"runs/one/train.yaml": YAML},
        "import yaml\nfrom pathlib import Path\nc = yaml.safe_load((Path('runs') / 'one' / 'train.yaml').read_text())",
        "c['model']['name']",
    ),
    "a file with anchors": (
        {"c.yaml": "all: &all\n  name: THE_ID\nmodel:\n  <<: *all\n  lr: 1\n"},
        "import yaml\nc = yaml.safe_load(open('c.yaml'))",
        "c['model']['name']",
    ),
    "taken apart": ({}, "def get():\n    return ('THE_ID', 4), 'gpt2'\n(name, rank), other = get()", "name"),
    "a module's, taken apart": (
        {
            "own.py": "def load(held):\n    NAME = held['model']['name']\n    return NAME, held['rate']\n",
            "a/odd.yaml": YAML,
        },
        "import yaml\nfrom own import load\nNAME, rate = load(yaml.safe_load(open('a/odd.yaml')))",
        "NAME",
    ),
    "an object's, taken apart": (
        {"a/odd.yaml": YAML},
        "import yaml\nclass Run:\n    def load(self, path):\n        c = yaml.safe_load(open(path))\n"
        "        return c['model']['name'], 4\nrun = Run()\nname, rank = run.load('a/odd.yaml')",
        "name",
    ),
    "written side by side": (
        {"a/odd.yaml": YAML},
        "import yaml\nc = yaml.safe_load(open('a/odd.yaml'))\nname, rate = c['model']['name'], 4",
        "name",
    ),
    "by getattr": ({"a.yaml": "id: THE_ID\n"}, "c = load('a.yaml')", "getattr(c, 'id', 'gpt2')"),
    "an INI file's": (
        {"a/run.ini": "[model]\nname = THE_ID\n"},
        "import configparser\nc = configparser.ConfigParser()\nc.read('a/run.ini')",
        "c['model']['name']",
    ),
    "an INI file's by get": (
        {"a/run.cfg": "[DEFAULT]\nname = THE_ID\n[model]\nlr = 1\n"},
        "import configparser\nc = configparser.ConfigParser()\nc.read('a/run.cfg')\nNAME = c.get('model', 'name')",
        "NAME",
    ),
    "where an INI file has none": (
        {"run.ini": "[model]\nlr = 1\n"},
        "import configparser\nc = configparser.ConfigParser()\nc.read('run.ini')",
        "c.get('model', 'name', fallback='THE_ID')",
    ),
    "a part of what is loaded": (
        {"a/odd.yaml": YAML},
        "import yaml\npart = yaml.safe_load(open('a/odd.yaml'))['model']",
        "part['name']",
    ),
    "the values of a .env file": (
        {".env": "MODEL=THE_ID\n"},
        "from dotenv import dotenv_values\nheld = dotenv_values()",
        "held['MODEL']",
    ),
    "an environment's": ({".env": "A=b\nMODEL='THE_ID' # ours\n"}, "import os\nNAME = os.getenv('MODEL')", "NAME"),
    "an environment's by an example": ({".env.example": "export MODEL=THE_ID\n"}, "import os", "os.environ['MODEL']"),
    "an environment's, not its default": (
        {".env": "MODEL=THE_ID\n"},
        "import os\nfrom dotenv import load_dotenv\nload_dotenv()",
        "os.getenv('MODEL', 'Qwen/Qwen3-8B')",
    ),
    "an environment's that is set": ({}, "import os\nos.environ['MODEL'] = 'THE_ID'", "os.environ['MODEL']"),
    "a command's environment": (
        {"run.sh": "export MODEL=THE_ID\npython train.py\n"},
        "import os",
        "os.environ['MODEL']",
    ),
    "a variable of a command": ({"run.sh": "MODEL=THE_ID python train.py\n"}, "import os", "os.environ['MODEL']"),
    "the default where a command sets no variable": (
        {"README.md": "```\npython train.py\nMODEL=Qwen/Qwen3-8B python train.py\n```\n"},
        "import os",
        "os.environ.get('MODEL', 'THE_ID')",
    ),
    "a path of a command": (
        {"run.sh": "python train.py model.name=THE_ID\n", "c.yaml": "model:\n  name: Qwen/Qwen3-8B\n"},
        "from omegaconf import OmegaConf\nc = OmegaConf.merge(OmegaConf.load('c.yaml'), OmegaConf.from_cli())",
        "c.model.name",
    ),
    "the file that a decorator names": (
        {"conf/sft.yaml": YAML, "conf/dpo.yaml": YAML.replace("THE_ID", "Qwen/Qwen3-8B")},
        "import hydra\n@hydra.main(config_path='conf', config_name='sft')\ndef main(c):\n    pass\nc = None",
        "c.model.name",
    ),
    "a value that another names": (
        {"c.yaml": "base: THE_ID\nmodel:\n  name: ${base}\n"},
        "from omegaconf import OmegaConf\nc = OmegaConf.load('c.yaml')",
        "c.model.name",
    ),
    "a scheduler's command": (
        {"jobs/one.slurm": "srun python train.py --config a/odd.yaml\n", "a/odd.yaml": YAML},
        "import argparse, yaml\np = argparse.ArgumentParser()\np.add_argument('--config')\n"
        "c = yaml.safe_load(open(p.parse_args().config))",
        "c['model']['name']",
    ),
    "a file that another names": (
        {"conf/config.yaml": "defaults:\n  - model: phi\n  - _self_\n", "conf/model/phi.yaml": "name: THE_ID\n"},
        "import hydra\nc = hydra.compose('config')",
        "c.model.name",
    ),
}


def script_of(folder: Path, way: str, model: str) -> Path:
    files, before, name = WAYS[way]
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text.replace("THE_ID", model))
    script = folder / "train.py"
    script.write_text(SCRIPT.format(before=before, name=name).replace("THE_ID", model))
    return script


@pytest.mark.parametrize("way", WAYS)
def test_a_model_of_another_family_is_an_error(tmp_path: Path, way: str) -> None:
    [error] = [each for each in port_file(script_of(tmp_path, way, PHI)).findings if each.severity == "error"]
    assert error.message.startswith((PHI, "gpt2")) and "Tunix doesn't have this model's family" in error.message


@pytest.mark.parametrize(
    "way", ["a module's dictionary", "set later", "either", "a file that another names", "an environment's"]
)
def test_a_model_of_a_family_that_tunix_has_is_ported(tmp_path: Path, way: str) -> None:
    assert port_file(script_of(tmp_path, way, "Qwen/Qwen3-0.6B")).status == "ported"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("c = {'id': 'a/b'}\nc['id'] = 'c/d'", "c['id']"),
        ("c = {'id': 'a/b'}\nc = {'id': 'c/d'}", "c['id']"),
        ("def get(big):\n    if big:\n        return {'id': 'a/b'}\n    return {'id': 'c/d'}\nc = get(1)", "c['id']"),
        ("c = {'id': 'a/b'}", "c.id"),
        ("c = {'id': 'a/b'}", "c['name']"),
        ("c = {'c': c}\nd = c['c']", "d['id']"),
        ("def get():\n    return get()\nc = get()", "c['id']"),
        ("c = ['a/b']", "c[1]"),
        ("def get():\n    return 'a/b', 4\nname, rank = get()\nif rank > 4:\n    rank, name = get()", "name"),
        ("*names, rank = 'a/b', 4", "names"),
        ("import os\nos.environ['A'] = 'a/b'\nos.environ['A'] = 'c/d'", "os.environ['A']"),
    ],
)
def test_what_a_table_does_not_tell(tmp_path: Path, text: str, code: str) -> None:
    assert usual_value(code, text, tmp_path / "train.py") is None


def test_the_last_of_two_that_are_put_together(tmp_path: Path) -> None:
    text = (
        "a = {'id': 'a/b', 'x': 1}\nb = {'id': 'c/d'}\nc = {**a, **b}\nd = {**b, **a}\ne = a | b\nf = dict(a, id='e/f')"
    )
    for name, value in (("c", "c/d"), ("d", "a/b"), ("e", "c/d"), ("f", "e/f")):
        assert usual_value(f"{name}['id']", text, tmp_path / "train.py") == (value, "")


def test_what_a_condition_chooses_is_each(tmp_path: Path) -> None:
    text = "name = 'a/b' if big else ('c/d' if small else load())"
    assert usual_values("name", text, tmp_path / "train.py", Launched()) == [("a/b", ""), ("c/d", "")]


def test_a_file_of_many_aliases_is_not_read(tmp_path: Path) -> None:
    lines = ["a0: &a0 {name: a/b}"] + [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 30)]
    (tmp_path / "c.yaml").write_text("\n".join(lines))
    text = "import yaml\nc = yaml.safe_load(open('c.yaml'))"
    assert usual_value("c['a29']['name']", text, tmp_path / "train.py") is None

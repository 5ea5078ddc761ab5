"""A value that a setting usually has, and that the port refuses when it starts, is an error before: that of a file of
the project, or a default.

Such a port was called ported, and ended where it makes its arguments.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Port

from .porting import HEAD

END = "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()\n"
YAML = "cfg = yaml.safe_load(open('run.yaml'))\n"
WAYS = {
    "a key": f"{YAML}args = SFTConfig('o', eval_delay=cfg['training']['eval_delay'])\n",
    "by get": f"{YAML}part = cfg.get('training')\nargs = SFTConfig('o', eval_delay=part.get('eval_delay', 0))\n",
    "a number": f"{YAML}args = SFTConfig('o', eval_delay=float(cfg['training']['eval_delay']))\n",
    "by a name": f"{YAML}DELAY = cfg['training']['eval_delay']\nargs = SFTConfig('o', eval_delay=DELAY)\n",
    "all of a part": f"{YAML}args = SFTConfig(**cfg['training'])\n",
    "an attribute": "from omegaconf import OmegaConf\ncfg = OmegaConf.load('run.yaml')\n"
    "args = SFTConfig('o', eval_delay=cfg.training.eval_delay)\n",
    "by functions": "def load(path):\n    with open(path) as file:\n        return yaml.safe_load(file)\n"
    "def make(cfg):\n    return SFTConfig('o', eval_delay=cfg['training']['eval_delay'])\n"
    "args = make(load('run.yaml'))\n",
    "by another module": "from own import load\ncfg = load('run.yaml')\n"
    "args = SFTConfig('o', eval_delay=cfg['training']['eval_delay'])\n",
    "by a command": "import sys\ncfg = yaml.safe_load(open(sys.argv[1]))\n"
    "args = SFTConfig('o', eval_delay=cfg['training']['eval_delay'])\n",
}


def ported(folder: Path, way: str, value: object) -> Port:
    (folder / "run.yaml").write_text(f"training:\n  output_dir: o\n  eval_delay: {value}\n")
    (folder / "run.sh").write_text("python train.py run.yaml\n")
    (folder / "own.py").write_text("import yaml\ndef load(path):\n    return yaml.safe_load(open(path))\n")
    script = folder / "train.py"
    script.write_text(f"import yaml\n{HEAD}{WAYS[way]}{END}")
    return port_file(script)


@pytest.mark.parametrize("way", WAYS)
def test_what_a_file_gives_and_the_port_refuses_is_an_error(tmp_path: Path, way: str) -> None:
    found = ported(tmp_path, way, 2)
    [error] = [each.message for each in found.findings if each.severity == "error"]
    assert error.startswith("SFTConfig.eval_delay=") and "a file of the project says 2" in error
    assert found.status == "partial" and "SFTConfig(" in found.after  # the port is right for another value


@pytest.mark.parametrize("way", ["a key", "all of a part", "by functions"])
def test_what_it_takes_is_not(tmp_path: Path, way: str) -> None:
    assert ported(tmp_path, way, 0).status == "ported"


DEFAULTS = {
    "an argument's": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--delay', type=int, default=2)\n"
    "given = p.parse_args()\nargs = SFTConfig('o', eval_delay=given.delay)\n",
    "a field's": "from dataclasses import dataclass\n@dataclass\nclass Settings:\n    delay: int = 2\n"
    "given = Settings()\nargs = SFTConfig('o', eval_delay=given.delay)\n",
    "a parameter's": "def make(delay=2):\n    return SFTConfig('o', eval_delay=delay)\nargs = make()\n",
    "an environment's": "import os\nargs = SFTConfig('o', eval_delay=int(os.getenv('DELAY', '2')))\n",
}


@pytest.mark.parametrize("way", DEFAULTS)
@pytest.mark.parametrize(("old", "new", "count"), [("2", "2", 1), ("2", "0", 0)])
def test_a_default_that_the_port_refuses_is_an_error(tmp_path: Path, way: str, old: str, new: str, count: int) -> None:
    (tmp_path / "train.py").write_text(f"{HEAD}{DEFAULTS[way]}{END}".replace(old, new))
    errors = [each.message for each in port_file(tmp_path / "train.py").findings if each.severity == "error"]
    assert len(errors) == count and all("its default is 2, which the port refuses" in error for error in errors)


def test_not_where_a_command_gives_another(tmp_path: Path) -> None:
    text = DEFAULTS["an argument's"]
    (tmp_path / "train.py").write_text(f"{HEAD}{text}{END}")
    (tmp_path / "run.sh").write_text("python train.py --delay 0\n")
    assert port_file(tmp_path / "train.py").status == "ported"

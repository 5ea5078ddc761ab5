"""Settings of which a script puts the dictionary together: each keyword dates it, and the port's class has to take it.

Such a port was called ported, read as the newest release, whose class ended it with a TypeError.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.front.port_script import port_script

from .porting import HEAD, check_becomes, port

END = "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()\n"
A = "a = dict(output_dir='o')\n"
BY_CONDITION = "({'max_seq_length': 512} if len(rows) > 9 else {})"
CERTAIN = {
    "a union": "a = a | dict(max_seq_length=512)\nargs = SFTConfig(**a)",
    "a union at the call": "args = SFTConfig(**(a | {'max_seq_length': 512}))",
    "a union in place": "a |= {'max_seq_length': 512}\nargs = SFTConfig(**a)",
    "another's union": "b = a | dict(max_seq_length=512)\nargs = SFTConfig(**b)",
    "made anew of itself": "a = {**a, 'max_seq_length': 512}\nargs = SFTConfig(**a)",
    "a call of itself": "a = dict(a, max_seq_length=512)\nargs = SFTConfig(**a)",
    "made twice": "a = dict(output_dir='p', max_seq_length=512)\nargs = SFTConfig(**a)",
    "updated by another": "b = dict(max_seq_length=512)\na.update(**b)\nargs = SFTConfig(**a)",
    "made anew behind": "a.update(junk=1)\na = dict(output_dir='o')\na['max_seq_length'] = 512\nargs = SFTConfig(**a)",
    "a copy": "b = a.copy()\nb['max_seq_length'] = 512\nargs = SFTConfig(**b)",
    "where it lacks it": "a.setdefault('max_seq_length', 512)\nargs = SFTConfig(**a)",
    "one taken out": "a |= dict(max_seq_length=512, junk=1)\ndel a['junk']\nargs = SFTConfig(**a)",
    "names and values": "args = SFTConfig(**dict(zip(['output_dir', 'max_seq_length'], ['o', 512])))",
    "names and values by name": "names = 'output_dir', 'max_seq_length'\nvalues = ['o', 512]\n"
    "args = SFTConfig(**{name: value for name, value in zip(names, values)})",
    "a function": "def make():\n    return dict(output_dir='o', max_seq_length=512)\nargs = SFTConfig(**make())",
    "calls in one another": "c = dict(training=dict(output_dir='o', max_seq_length=512))\n"
    "args = SFTConfig(**c['training'])",
    "a part with a name": "c = {'training': {'output_dir': 'o', 'max_seq_length': 512}}\nt = c['training']\n"
    "args = SFTConfig(**t)",
}
KEPT = {
    "a union by condition": "if len(rows) > 9:\n    a = a | dict(max_seq_length=512)\nargs = SFTConfig(**a)",
    "in place by condition": "if len(rows) > 9:\n    a |= dict(max_seq_length=512)\nargs = SFTConfig(**a)",
    "anew by condition": "if len(rows) > 9:\n    a = dict(output_dir='o', max_seq_length=512)\nargs = SFTConfig(**a)",
    "by condition within": f"b = {{**a, **{BY_CONDITION}}}\nargs = SFTConfig(**b)",
    "by condition at the call": f"args = SFTConfig(**(a | {BY_CONDITION}))",
    "a function that fills": "def make(n):\n    made = dict(output_dir='o')\n    made['max_seq_length'] = n\n"
    "    return made\nargs = SFTConfig(**make(512))",
    "a function in another": "def main():\n    def make(n):\n        return dict(output_dir='o', max_seq_length=n)\n"
    "    return SFTConfig(**make(512))\nargs = main()",
    "a function that changes": "def fill(given):\n    given['max_seq_length'] = 512\nfill(a)\nargs = SFTConfig(**a)",
    "a function of two": "def both(one, other):\n    made = dict(one)\n    made.update(other)\n    return made\n"
    "args = SFTConfig(**both(a, dict(max_seq_length=512)))",
    "keywords handed on": "def make(**more):\n    return SFTConfig(**{**a, **more})\nargs = make(max_seq_length=512)",
    "a loop": "for key, value in {'max_seq_length': 512}.items():\n    a[key] = value\nargs = SFTConfig(**a)",
    "without what is None": "a |= dict(max_seq_length=512, junk=None)\n"
    "args = SFTConfig(**{key: value for key, value in a.items() if value is not None})",
    "a chain": "from collections import ChainMap\nargs = SFTConfig(**ChainMap(a, dict(max_seq_length=512)))",
    "names and values of the run": "args = SFTConfig(**dict(zip(['output_dir', 'max_seq_length'], given())))",
    "names, and a value where there is one": "names = ['output_dir', 'max_seq_length']\n"
    "args = SFTConfig(**{name: value for name, value in zip(names, given()) if value})",
    "pairs": "args = SFTConfig(**dict([('output_dir', 'o'), ('max_seq_length', 512)]))",
    "a part or nothing": "c = {'training': {'output_dir': 'o', 'max_seq_length': 512}}\n"
    "args = SFTConfig(**c.get('training', {}))",
    "a part that is changed": "c = {'training': {'output_dir': 'o'}}\nc['training'].update(max_seq_length=512)\n"
    "args = SFTConfig(**c['training'])",
    "one of a list": "all_of_them = [dict(output_dir='o', max_seq_length=512)]\nargs = SFTConfig(**all_of_them[0])",
    "fields of an object": "from dataclasses import asdict, dataclass\n@dataclass\nclass Settings:\n"
    "    output_dir: str = 'o'\n    max_seq_length: int = 512\nargs = SFTConfig(**asdict(Settings()))",
    "what an object has": "from types import SimpleNamespace\nc = SimpleNamespace(output_dir='o', max_seq_length=512)\n"
    "args = SFTConfig(**vars(c))",
    "a text": 'import json\nargs = SFTConfig(**json.loads(\'{"output_dir": "o", "max_seq_length": 512}\'))',
}


@pytest.mark.parametrize("form", CERTAIN)
def test_a_keyword_that_is_surely_there_is_a_keyword_of_the_call(form: str) -> None:
    found = check_becomes(f"{HEAD}{A}{CERTAIN[form]}\n{END}", "max_length=512,")
    assert found.recipe.versions["trl"].startswith("0.19.1 "), found.recipe.versions


@pytest.mark.parametrize("form", KEPT)
def test_a_keyword_that_only_the_run_knows_dates_the_class_that_gets_it(form: str) -> None:
    found = check_becomes(f"{HEAD}{A}{KEPT[form]}\n{END}", 'trl_arguments("0.19.1", "SFTConfig")')
    assert "SFTConfig.max_seq_length" in [field.source for field in found.fields], found.fields


@pytest.mark.parametrize("form", ["a union", "a function", "a part with a name", *KEPT])
def test_a_keyword_that_the_release_has_not_is_an_error_in_every_form(form: str) -> None:
    text = {**CERTAIN, **KEPT}[form].replace("max_seq_length", "max_sequence")
    found = port(f"{HEAD}{A}{text}\n{END}")
    errors = [each.message for each in found.findings if each.severity == "error"]
    assert found.status == "partial" and any("max_sequence" in error for error in errors), found.findings


@pytest.mark.parametrize("form", ["in place by condition", "a function that fills", "keywords handed on"])
def test_nor_is_one_that_another_release_had(form: str) -> None:
    found = port(f"{HEAD}{A}{KEPT[form]}\n{END}", source_trl="1.6.0")
    errors = [each.message for each in found.findings if each.severity == "error"]
    assert any("max_seq_length: TRL 1.6.0 has no such keyword, and the port would stop" in error for error in errors)


SIGNATURE = "import inspect\ntaken = inspect.signature(SFTConfig).parameters\n"
NOT_GIVEN = {
    "to a release that has it": f"{SIGNATURE}if 'max_seq_length' in taken:\n    a |= dict(max_seq_length=512)\n"
    "args = SFTConfig(**a)",
    "by a function to a release that has it": f"{SIGNATURE}def make(n):\n    made = dict(output_dir='o')\n"
    "    if 'max_seq_length' in taken:\n        made['max_seq_length'] = n\n    return made\n"
    "args = SFTConfig(**make(5))",
    "in a try": "try:\n    args = SFTConfig(**(a | dict(max_seq_length=512)))\n"
    "except TypeError:\n    args = SFTConfig(**(a | dict(max_length=512)))",
    "by a function that tries": "def made(**given):\n    try:\n        return SFTConfig(**given)\n"
    "    except TypeError as error:\n        if 'max_seq_length' not in str(error):\n            raise\n"
    "        given['max_length'] = given.pop('max_seq_length')\n        return SFTConfig(**given)\n"
    "args = made(output_dir='o', max_seq_length=512)",
    "by a loop over what is taken": f"{SIGNATURE}given = {{}}\n"
    "for key, value in dict(a, max_seq_length=512).items():\n    if key in taken:\n        given[key] = value\n"
    "args = SFTConfig(**given)",
    "under its new name": f"{SIGNATURE}def renamed(given):\n    if 'max_seq_length' not in taken:\n"
    "        given['max_length'] = given.pop('max_seq_length')\n    return given\n"
    "args = SFTConfig(**renamed(dict(a, max_seq_length=512)))",
    "but taken out": "a |= dict(max_seq_length=512)\nlength = a.pop('max_seq_length')\nargs = SFTConfig(**a)",
    "but taken out of a part": "c = {'training': dict(a, max_seq_length=512)}\nc['training'].pop('max_seq_length')\n"
    "args = SFTConfig(**c['training'])",
}


@pytest.mark.parametrize("form", NOT_GIVEN)
def test_a_keyword_that_is_not_given_for_sure_dates_nothing(form: str) -> None:
    found = port(f"{HEAD}{A}{NOT_GIVEN[form]}\n{END}")
    assert found.recipe.versions["trl"] == "1.16.0 (newest table)" and found.status == "ported", found.findings


@pytest.mark.parametrize(
    "changed",
    [
        "a['output_dir'], a['max_steps'] = 'p', given()",
        "a['model_init_kwargs']['dtype'] = 'bfloat16'",
        "del a['output_dir'], a['max_steps']",
        "b = a\nb['max_steps'] = 4",
    ],
)
def test_a_change_that_is_not_followed_leaves_the_object(changed: str) -> None:
    """Each was read as if it changed nothing."""
    made = "a = dict(output_dir='o', max_steps=3, model_init_kwargs={})\na['seed'] = 1\n"
    found = port(f"{HEAD}{made}{changed}\nargs = SFTConfig(**a)\n{END}")
    assert "rt.SFTBatches.from_args(args, " in found.after, found.after


@pytest.mark.parametrize("made", ["make = partial(SFTConfig, 'o')\nargs = make(max_seq_length=512)"])
def test_a_class_that_is_made_by_a_part_of_its_keywords(made: str) -> None:
    found = port(f"from functools import partial\n{HEAD}{made}\n{END}")
    assert found.recipe.versions["trl"].startswith("0.19.1 ")


def test_a_field_that_is_replaced() -> None:
    text = "from dataclasses import replace\nargs = SFTConfig('o')\nargs = replace(args, max_seq_length=512)\n"
    assert port(f"{HEAD}{text}{END}").recipe.versions["trl"].startswith("0.19.1 ")


LOADED = {
    "an attribute": "from omegaconf import OmegaConf\ncfg = OmegaConf.load('run.yaml')\n"
    "args = SFTConfig(**OmegaConf.to_container(cfg.training))",
    "a part": "cfg = yaml.safe_load(open('run.yaml'))\nargs = SFTConfig(**cfg['training'])",
    "a part or nothing": "cfg = yaml.safe_load(open('run.yaml'))\nargs = SFTConfig(**cfg.get('training', {}))",
    "by a function": "def load(path):\n    with open(path) as file:\n        return yaml.safe_load(file)\n"
    "args = SFTConfig(**load('run.yaml')['training'])",
}


@pytest.mark.parametrize("form", LOADED)
@pytest.mark.parametrize(
    ("key", "release", "status"),
    [("max_seq_length", "0.19.1", "ported"), ("max_length", "1.16.0", "ported"), ("max_sequence", "1.16.0", "partial")],
)
def test_the_keywords_in_a_file_of_settings(tmp_path: Path, form: str, key: str, release: str, status: str) -> None:
    (tmp_path / "run.yaml").write_text(f"training:\n  output_dir: o\n  {key}: 512\n")
    script = tmp_path / "train.py"
    script.write_text(f"import yaml\n{HEAD}{LOADED[form]}\n{END}")
    found = port_file(script)
    assert found.recipe.versions["trl"].startswith(f"{release} ") and found.status == status, found.findings


DECORATED = """import hydra
@hydra.main(version_base=None, config_path="conf", config_name="run")
def main(cfg):
    args = SFTConfig(**{spread})
    trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows)
    trainer.train()
main()
"""
SPREADS = {
    "cfg.training": {"run.yaml": "training:\n  output_dir: o\n  THE_KEY: 512\n"},
    "cfg['training']": {
        "run.yaml": "defaults:\n  - training: long\n  - _self_\n",
        "training/long.yaml": "output_dir: o\nTHE_KEY: 512\n",
    },
    "OmegaConf.to_container(cfg.part.training, resolve=True)": {
        "run.yaml": "defaults:\n  - part/training: long\n",
        "part/training/long.yaml": "output_dir: o\nTHE_KEY: 512\n",
    },
    "cfg.get('training')": {
        "run.yaml": "defaults:\n  - base\nmodel:\n  name: x\n",
        "base.yaml": "training:\n  output_dir: o\n  THE_KEY: 512\n",
    },
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(
    ("key", "release", "status"), [("max_seq_length", "0.19.1", "ported"), ("max_sequence", "1.16.0", "partial")]
)
def test_the_keywords_of_what_a_decorator_gives(
    tmp_path: Path, spread: str, key: str, release: str, status: str
) -> None:
    """Hydra's files were not read: such a port was called ported, and ended with a TypeError."""
    for name, text in SPREADS[spread].items():
        (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / name).write_text(text.replace("THE_KEY", key))
    script = tmp_path / "train.py"
    script.write_text(f"from omegaconf import OmegaConf\n{HEAD}{DECORATED.format(spread=spread)}")
    found = port_file(script)
    assert found.recipe.versions["trl"].startswith(f"{release} ") and found.status == status, found.findings


@pytest.mark.parametrize(
    ("read", "command"),
    [
        ("yaml.safe_load(open(sys.argv[1]))", "python train.py runs/a.yaml\npython train.py runs/b.yaml\n"),
        (
            "json.load(open(parser.parse_args().config))",
            "accelerate launch train.py --config=runs/a.json\npython train.py --config runs/b.json\n",
        ),
    ],
)
def test_the_keywords_in_the_files_that_commands_give(tmp_path: Path, read: str, command: str) -> None:
    (tmp_path / "runs").mkdir()
    for name, key in (("a", "output_dir"), ("b", "max_seq_length")):
        held = f'{{"training": {{"{key}": 512}}}}'  # JSON is YAML
        (tmp_path / "runs" / f"{name}.yaml").write_text(held)
        (tmp_path / "runs" / f"{name}.json").write_text(held)
    (tmp_path / "run.sh").write_text(command)
    script = tmp_path / "train.py"
    made = f"parser = argparse.ArgumentParser()\ncfg = {read}\nargs = SFTConfig('o', **cfg['training'])\n"
    script.write_text(f"import argparse, json, sys, yaml\n{HEAD}{made}{END}".replace("'o', ", ""))
    assert port_file(script).recipe.versions["trl"].startswith("0.19.1 ")


@pytest.mark.parametrize(
    "taken",
    [
        "name = cfg.pop('model_name')",
        "def name_of(settings):\n    return settings.pop('model_name')\nname = name_of(cfg)",
        "for key in ('model_name', 'rows'):\n    cfg.pop(key, None)",
        "cfg = {key: value for key, value in cfg.items() if key != 'model_name'}",
        "cfg = {key: cfg[key] for key in ('output_dir', 'max_steps')}",
    ],
)
def test_a_file_of_settings_of_which_a_key_is_taken_out(tmp_path: Path, taken: str) -> None:
    (tmp_path / "run.yaml").write_text("output_dir: o\nmodel_name: Qwen/Qwen3-0.6B\n")
    script = tmp_path / "train.py"
    made = f"cfg = yaml.safe_load(open('run.yaml'))\n{taken}\nargs = SFTConfig(**cfg)\n"
    script.write_text(f"import yaml\n{HEAD}{made}{END}")
    assert port_file(script).status == "ported"


MODULES = {
    "a constant": ("S = dict(output_dir='o', max_seq_length=512)", "from conf import S\nargs = SFTConfig(**S)"),
    "by the module": ("S = dict(output_dir='o', max_seq_length=512)", "import conf\nargs = SFTConfig(**conf.S)"),
    "a part": ("C = {'t': dict(output_dir='o', max_seq_length=512)}", "from conf import C\nargs = SFTConfig(**C['t'])"),
    "filled there": ("S = {}\nS['max_seq_length'] = 512", "from conf import S\nargs = SFTConfig('o', **S)"),
    "a function": (
        "def make(n):\n    return dict(max_seq_length=n)",
        "import conf\nargs = SFTConfig('o', **conf.make(9))",
    ),
    "an object": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    max_seq_length: int = 512",
        "from dataclasses import asdict\nfrom conf import C\nargs = SFTConfig('o', **asdict(C()))",
    ),
}


@pytest.mark.parametrize("form", MODULES)
def test_a_dictionary_of_another_module(tmp_path: Path, form: str) -> None:
    """Such a module is read with the script alone where it has to change."""
    held, made = MODULES[form]
    (tmp_path / "conf.py").write_text(f"{held}\n")
    (tmp_path / "train.py").write_text(f"{HEAD}{made}\n{END}")
    found = port_script(tmp_path / "train.py")
    assert found.status == "ported" and found.recipe.versions["trl"].startswith("0.19.1 "), found.findings
    (tmp_path / "conf.py").write_text(f"{held}\n".replace("max_seq_length", "max_sequence"))
    assert any("max_sequence is not a keyword" in each.message for each in port_script(tmp_path / "train.py").findings)


def test_what_a_module_gives_by_condition_dates_nothing(tmp_path: Path) -> None:
    held = "import trl\nS = {}\nif trl.__version__ < '0.20':\n    S['max_seq_length'] = 512\n"
    (tmp_path / "conf.py").write_text(held)
    (tmp_path / "train.py").write_text(f"{HEAD}from conf import S\nargs = SFTConfig('o', **S)\n{END}")
    assert port_script(tmp_path / "train.py").recipe.versions["trl"] == "1.16.0 (newest table)"


@pytest.mark.parametrize(("behind", "said"), [("", True), (" if len(rows) > 9 else {}", False)])
def test_what_is_refused_at_the_start_is_refused_before(behind: str, said: bool) -> None:
    """The port was called ported, and ended where it made the config."""
    made = f"def make(rank):\n    return dict(r=rank, use_dora=True){behind}\npeft = LoraConfig(**make(4))\n"
    end = END.replace("args=args,", "args=SFTConfig('o'), peft_config=peft,")
    found = port(f"from peft import LoraConfig\n{HEAD}{made}{end}")
    assert ("LoraConfig.use_dora=True" in " ".join(each.message for each in found.findings)) is said


@pytest.mark.parametrize(("inside", "kept"), [("", True), ("    a = dict(output_dir='o', max_steps=3)\n", False)])
def test_a_dictionary_that_the_next_round_of_a_loop_changes(inside: str, kept: bool) -> None:
    """The first round's values were those of all."""
    made = f"a = dict(output_dir='o', max_steps=3)\nfor _ in range(2):\n{inside}    args = SFTConfig(**a)\n"
    made += f"    {END.replace(chr(10), chr(10) + '    ').rstrip()}\n    a['max_steps'] = 5\n"
    found = port(f"{HEAD}{made}")
    assert ("SFTConfig(**a)" in found.after) is kept, found.after

"""What an expression usually is: the default, the field or the parameter that all calls give, followed once."""

from __future__ import annotations

import ast
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import yaml

from porter.source.project.usual.held_settings import Launched
from porter.source.project.usual.model_names import usual_value, usual_values

from .named_models import PHI, folder


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


def test_defaults_that_lead_to_themselves(tmp_path: Path) -> None:
    parser = "p.add_argument('--model', default=args.model)\n"
    assert usual_value("args.model", parser, tmp_path / "train.py") is None
    fields = "class Config:\n    model: str = config.name\n    name: str = config.model\n"
    assert usual_value("config.model", fields, tmp_path / "train.py") is None


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


def test_a_parameter_is_what_all_calls_of_its_function_give(tmp_path: Path) -> None:
    script, made = tmp_path / "train.py", "def load(kind, name): pass\n"
    for calls, value in (
        ("load(1, 'a/b')", "a/b"),
        ("BASE = 'a/b'\nload(kind=1, name=BASE)\nload(2, 'a/b')", "a/b"),
        ("load(1, 'a/b')\nload(1, 'c/d')", None),
        ("load(1, 'a/b')\nload(1, unknown)", None),
        ("load(*both)", None),
        ("load(1, name)", None),
        ("", None),
        ("p.add_argument('--model', default='a/b')\nload(1, args.model)", None),  # which a user may choose otherwise
    ):
        found = usual_value("name", made + calls, script)
        assert (found[0] if found else None) == value, calls
    chosen = made + "p.add_argument('--model', default='a/b')\nload(1, args.model)"
    assert usual_values("name", chosen, script, Launched()) == [("a/b", "the default of --model")]


@pytest.mark.parametrize(
    ("made", "calls", "value"),
    [
        ("def load(name=''): pass", "load(name='a/b')", "a/b"),
        ("def load(name='c/d'): pass", "load('a/b')", "a/b"),
        ("def load(name='c/d'): pass", "load()", "c/d"),
        ("def load(name='c/d'): pass", "load('a/b')\nload()", None),
        ("def load(*, name): pass", "load(name='a/b')", "a/b"),
        ("class Model:\n    def __init__(self, name): pass", "Model('a/b')", "a/b"),
        ("class Model:\n    def load(self, name): pass", "model.load('a/b')", "a/b"),
        ("def load(name: str = typer.Option('a/b', help='which')): pass", "typer.run(load)", "a/b"),
        ("@click.option('--name', default='a/b')\ndef load(name): pass", "load()", "a/b"),
    ],
)
def test_a_parameter_with_a_default(tmp_path: Path, made: str, calls: str, value: str | None) -> None:
    found = usual_value("name", f"{made}\n{calls}\n", tmp_path / "train.py")
    assert (found[0] if found else None) == value


FROM_CONF = "from conf import BASE\n"
BOTH = "def load(name=BASE): pass\ndef both(name=BASE): load(name)\n"
CHAIN = "def load(name): pass\n" + "".join(
    f"def f{n}(name{n}): {f'f{n - 1}' if n else 'load'}(name{n})\n" for n in range(7)
)


@pytest.mark.parametrize(
    ("made", "calls", "value"),
    [
        (BOTH, "both(name=model)\ndef train(model): both(name=model)\ntrain('a/b')", "a/b"),  # it hands its own on
        (BOTH, "train()", "c/d"),  # two defaults that are the same
        (BOTH.replace("both(name=BASE)", "both(name='e/f')"), "train()", None),
        (CHAIN, "f6('a/b')", "a/b"),
        (CHAIN, "@click.option('--name6', default='a/b')\ndef main(**words): f6(**words)", "a/b"),
        (CHAIN, "parser.add_argument('--name6', default='a/b')\nf6(**vars(parser.parse_args()))", "a/b"),
        (CHAIN, "parser.add_argument('--name6', default='a/b')\nf6(unknown)", None),
        (
            "def load(name): pass\n",
            "load('a/b')\nload(name)",
            None,
        ),  # the name of another: at the top there's no parameter
    ],
)
def test_a_parameter_that_goes_through_several_functions(tmp_path: Path, made: str, calls: str, value: str) -> None:
    (tmp_path / "conf.py").write_text("BASE = 'c/d'\n")
    found = usual_values("name", f"{FROM_CONF}{made}{calls}\n", tmp_path / "train.py", Launched())
    assert [text for text, _ in found] == [value] * (value is not None)


def test_a_field_is_what_its_class_is_made_with(tmp_path: Path) -> None:
    text = "class Config:\n    model: str = 'a/b'\ncfg = Config(model='c/d')\n"
    assert usual_value("cfg.model", text, tmp_path / "train.py") == ("c/d", "Config.model")


def test_a_name_that_functions_hand_on_to_one_another_is_asked_once(tmp_path: Path) -> None:
    """Six functions that call the next seven times each lead to 117,649 calls, were each followed on its own."""
    calls = "\n".join(f"def f{n}(p{n}):\n" + f"    f{n + 1}(p{n})\n" * 7 for n in range(6))
    text = f"{calls}\ndef f6(p6):\n    load(p6)\nf0('a/b')\n"
    begun = process_time()
    usual_value("p6", text, tmp_path / "train.py")

    assert process_time() - begun < 5, "milliseconds, or minutes"


def test_fields_of_one_name_in_several_classes_are_asked_once(tmp_path: Path) -> None:
    """Each class is made with the next one's fields, seven times: 117,649 questions, were each asked on its own."""
    made = "\n".join(
        f"class C{n}:\n    pass\n" + "".join(f"C{n}(f{n}=rows{part}.f{n + 1})\n" for part in range(7)) for n in range(6)
    )
    held = "".join(f"class H{n}:\n    f{n}: str\n" for n in range(7)).replace("class H", "class C")
    begun = process_time()
    usual_value("config.f0", f"{held}{made}", tmp_path / "train.py")

    assert process_time() - begun < 5, "milliseconds, or minutes"


def test_a_file_of_the_project_is_parsed_once_for_all_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port asks for some hundred values; each once parsed the script, its modules and its settings anew."""
    (tmp_path / "config.yaml").write_text("model:\n  name: a/b\n")
    (tmp_path / "names.py").write_text("NAME = 'c/d'  # of this test alone\n")
    text = "from names import NAME\nCFG = load('config.yaml')\nmodel, other = CFG['model']['name'], NAME\n"
    parsed: list[str] = []
    for module, name in ((ast, "parse"), (yaml, "safe_load")):
        whole = getattr(module, name)

        def counted(text: str, *given: object, _whole: Any = whole, **more: object) -> object:
            parsed.append(text)
            return _whole(text, *given, **more)

        monkeypatch.setattr(module, name, counted)

    for _ in range(3):
        assert usual_value("CFG['model']['name']", text, tmp_path / "train.py") == ("a/b", "config.yaml")
        assert usual_value("NAME", text, tmp_path / "train.py") == ("c/d", "names.py")

    for file in (text, *(path.read_text() for path in tmp_path.iterdir())):
        assert parsed.count(file) == 1, file


def test_an_attribute_that_is_made_of_another_part_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model:\n  base: a/b\n")
    head = "config = yaml.safe_load(open('config.yaml'))\nclass Tuner:\n    def __init__(self, config):\n"
    script, made = tmp_path / "train.py", "        self.part = config['model']\n        self.name = self.part['base']\n"
    assert usual_value("self.name", head + made, script) == ("a/b", "Tuner.name")
    round_and_round = "        self.part = self.name['base']\n        self.name = self.part['base']\n"
    assert usual_value("self.name", head + round_and_round, script) is None

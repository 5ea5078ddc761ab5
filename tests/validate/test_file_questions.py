"""A file that a script asks for, and without which it ends, is one that has to be made up."""

from __future__ import annotations

import ast

import pytest

from porter.validate.stand_ins.data.file_questions import ends_without, ends_without_folder

PLACES = "for place in places:\n    place = place.resolve()\n    if place.exists():\n        {}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("if not path.exists():\n    raise FileNotFoundError(path)\n", 1),
        ("if path.exists():\n    rows = read(path)\nelse:\n    sys.exit(1)\n", 1),
        ("assert path.is_file(), path\n", 1),
        ("def find():\n    if path.exists():\n        return path\n    raise FileNotFoundError(path)\n", 2),
        (f"def find():\n    {PLACES.format('return place').replace(chr(10), chr(10) + '    ')}raise ValueError\n", 4),
        (PLACES.format("break") + "else:\n    raise ValueError\n", 3),
        (PLACES.format("found = place") + "tried = 3\nif found is None:\n    sys.exit()\n", 3),
        ("files = [place for place in places if place.exists()]\nif not files:\n    raise ValueError\n", 1),
        ("there = os.path.exists(path)\nif not there:\n    raise ValueError\n", 1),
    ],
)
def test_a_script_that_ends_without_the_file(text: str, line: int) -> None:
    assert ends_without(ast.parse(text), line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("if path.exists():\n    rows = read(path)\n", 1),
        ("assert not path.exists()\n", 1),
        ("if not path.exists():\n    make(path)\n", 1),
        ("def find():\n    if path.exists():\n        return path\n    return None\n", 2),
        (
            "def rows():\n    if kept.exists():\n        return read(kept)\n    if not made:\n        raise Error\n",
            2,
        ),
        ("if kept.exists():\n    rows = read()\nelse:\n    rows = make()\nif not rows:\n    raise ValueError\n", 1),
        ("if kept.exists():\n    rows = read()\nif other is None:\n    raise ValueError\n", 1),
    ],
)
def test_a_script_that_goes_on_without_the_file(text: str, line: int) -> None:
    assert not ends_without(ast.parse(text), line)


@pytest.mark.parametrize(
    ("text", "gives_up"),
    [
        ("if not path.exists():\n    log.error('run train_sft.py first')\n    sys.exit(1)\n", True),
        ("if not os.path.isdir(path):\n    raise FileNotFoundError(path)\n", True),
        ("assert path.is_dir()\n", True),
        ("if name and not Path(name).exists():\n    raise FileNotFoundError(name)\n", True),
        ("if not path.exists():\n    print('train it first')\n    return\n", True),
        ("if not model.exists() or not tokens.exists():\n    raise FileNotFoundError(model)\n", True),
        ("if not model.exists() or model.stat().st_size:\n    raise FileNotFoundError(model)\n", False),
        ("if not path.is_dir():\n    return None\n", False),
        ("if not path.is_dir():\n    return []\n", False),
        ("if not path.exists():\n    path.mkdir()\n", False),
        ("if path.exists():\n    raise FileExistsError(path)\n", False),
        ("if path.exists():\n    resume(path)\n", False),
    ],
)
def test_a_folder_without_which_a_script_gives_up(text: str, gives_up: bool) -> None:
    text = "def run():\n" + "".join(f"    {line}\n" for line in text.splitlines())
    assert ends_without_folder(ast.parse(text), 2) is gives_up

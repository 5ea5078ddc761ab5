"""IPython's own lines: what is one, and that its stand-in is Python of the same length."""

from __future__ import annotations

import ast

import pytest

from porter.source.notebooks.magics import is_python, masked
from porter.source.parsing import parse_text


@pytest.mark.parametrize(
    "line",
    [
        "!pip install -q trl",
        "%pip install trl",
        "!ls",
        "%cd",
        "!w",
        "?print",
        "model?",
        "trainer.train??",
        "pip install trl",
        "%%capture",
        "files = !ls *.json",
        "x = %timeit -o f()",
        "! huggingface-cli login --token $HF",
    ],
)
@pytest.mark.parametrize("around", ["{}", "if True:\n    {}\n", "a = 1\n{}\nb = 2\n", "é = 'é'\n{}"])
def test_a_line_of_ipython_gets_a_stand_in_of_its_length(line: str, around: str) -> None:
    text = around.format(line)
    found = masked(text)
    assert found != text and len(found) == len(text)
    ast.parse(found)
    assert found.count("\n") == text.count("\n")


def test_a_line_that_goes_on() -> None:
    text = "!accelerate launch \\\n    --num_processes 8 \\\n  train.py\nx = 1\n"
    assert ast.unparse(ast.parse(masked(text))) == "0\nx = 1"


@pytest.mark.parametrize(
    "text",
    [
        "x = ('%d'\n     % 3)\n",
        "x = 7 \\\n    % 2\n",
        'text = """\n!pip install trl\n%cd\n"""\n',
        "if x != 3: pass\n",
        "x %= 3\n",
        "pip = 3\n",
        "pip .install\n",
        "a = [\n  1, # don't\n]\nb = '\"'\n",
        "s = 'it\\'s # not (a comment'\n",
    ],
)
def test_python_stays(text: str) -> None:
    assert masked(text) == text


def test_a_shell_line_over_several_lines_is_read_exactly() -> None:
    text = '!curl http://localhost:11434/api/chat -d \'{ \\\n    "model": "x", \\\n    "stream": false}\'\n'
    tree, parsed = parse_text(text)
    assert tree.code == parsed and len(parsed) == len(text)


def test_a_magic_behind_a_string_of_several_lines() -> None:
    text = "s = '''a (\n' # [\n'''\n!ls -l\n"
    assert masked(text) == "s = '''a (\n' # [\n'''\nNone#l\n"


@pytest.mark.parametrize(
    ("cell", "want"),
    [
        ("%%bash\nls", False),
        ("%%writefile a.py\nx", False),
        ("%%time\nf()", True),
        ("%%capture\n!ls", True),
        ("x", True),
    ],
)
def test_what_a_cell_magic_makes_of_its_cell(cell: str, want: bool) -> None:
    assert is_python(cell) is want

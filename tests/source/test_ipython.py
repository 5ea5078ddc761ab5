"""Notebooks as one program: IPython's own lines as Python of as many lines, and every line's place in its cell."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from porter.errors import InputError
from porter.source.notebooks.ipython import as_python
from porter.source.notebooks.program import Program, is_notebook, program_text, read_program


def saved(folder: Path, *sources: str, **metadata: Any) -> Path:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": "# words"}]
    for source in sources:
        cell = {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        cells.append(cell)
    path = folder / "train.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    return path


@pytest.mark.parametrize(
    ("cell", "want"),
    [
        ("x = 1\nx", "x = 1\nx"),
        ("!pip install 'trl==0.9.6' -q", "get_ipython().system(\"pip install 'trl==0.9.6' -q\")"),
        ("pip install trl", "get_ipython().run_line_magic('pip', 'install trl')"),
        ("if a:\n    !ls\n    b()", "if a:\n    get_ipython().system('ls')\n    b()"),
        ("names = !ls out", "names = get_ipython().getoutput('ls out')"),
        ("!!ls", "get_ipython().getoutput('ls')"),
        ("%cd /content", "get_ipython().run_line_magic('cd', '/content')"),
        ("cd data/x", "get_ipython().run_line_magic('cd', 'data/x')"),
        ("cd ..", "get_ipython().run_line_magic('cd', '..')"),
        ("ls", "get_ipython().run_line_magic('ls', '')"),
        ("rm -rf out", "get_ipython().run_line_magic('rm', '-rf out')"),
        ("cp = 1\nls [0]\nmv - 1\ncat if ls else rm\nrm.f", "cp = 1\nls [0]\nmv - 1\ncat if ls else rm\nrm.f"),
        ("x = ! ls | wc", "x = get_ipython().getoutput('ls | wc')"),
        ("x = ! = 3", "x = ! = 3"),
        ("key = %env KEY", "key = get_ipython().run_line_magic('env', 'KEY')"),
        ("?Trainer", "get_ipython().run_line_magic('pinfo', 'Trainer')"),
        ("Trainer.train??", "get_ipython().run_line_magic('pinfo', 'Trainer.train')"),
        ("%time trainer.train()", "trainer.train()"),
        ("%timeit -n 1 -r 3 x = step()", "x = step()"),
        ("%time for i in rows: f(i)", "get_ipython().run_line_magic('time', 'for i in rows: f(i)')"),
        ("!pip install a \\\n  b\nc()", "get_ipython().system('pip install a    b')\n\nc()"),
        ("%%time\nx()", "get_ipython().run_line_magic('time', '')\nx()"),
        ("%%capture out\n!ls\nx()", "get_ipython().run_line_magic('capture', 'out')\nget_ipython().system('ls')\nx()"),
        ("%%capture\n%%time\nx()", "get_ipython().run_line_magic('capture', '')\n"
         "get_ipython().run_line_magic('time', '')\nx()"),
        ("%%bash\nls\n", "get_ipython().run_cell_magic('bash', '', 'ls\\n')\n\n"),
        ("%%writefile a/b.json\n{}", "get_ipython().run_cell_magic('writefile', 'a/b.json', '{}')\n"),
        ('text = """\n!ls\n"""', 'text = """\n!ls\n"""'),
        ("x = (a\n     % b)", "x = (a\n     % b)"),
    ],
)  # fmt: skip
def test_lines_of_ipython_are_calls(cell: str, want: str) -> None:
    got = as_python(cell)
    assert got == want
    if "! =" not in cell:
        ast.parse(got)
    assert got.count("\n") == cell.count("\n")


def test_the_program_of_a_notebook_keeps_its_places(tmp_path: Path) -> None:
    path = saved(tmp_path, "!pip install trl\nimport os", "%%bash\nls\nls", "a = 1\n\nb = await f(a)\n")
    program = read_program(path)
    lines = program.text.splitlines()
    assert program.place(lines.index("import os") + 1) == (2, 2)
    assert program.place(lines.index("a = 1") + 1) == (4, 1)
    assert program.place(lines.index("b = await f(a)") + 1) == (4, 3)
    assert program_text(path) == program.text and is_notebook(path)


def test_tracebacks_name_cells(tmp_path: Path) -> None:
    program = Program(str(tmp_path / "train.ipynb"), "", ((1, 2), (7, 10)))
    told = program.named(
        f'  File "{tmp_path}/train.ipynb", line 12, in <module>\n    f()\n  File "/lib/x.py", line 12, in f\n'
        "train.ipynb:3: UserWarning: old"
    )
    assert told.splitlines() == [
        f'  File "{tmp_path}/train.ipynb", cell 7, line 3, in <module>',
        "    f()",
        '  File "/lib/x.py", line 12, in f',
        "train.ipynb cell 1, line 2: UserWarning: old",
    ]


def test_a_cell_that_does_not_parse_is_left_out_unless_it_trains(tmp_path: Path) -> None:
    program = read_program(saved(tmp_path, "bucket = <YOURS>", "x = 1"))
    assert program.skipped == ((2, "line 1: invalid syntax"),)
    assert "bucket" not in program.text and program.place(2) == (3, 1)
    with pytest.raises(InputError, match=r"train\.ipynb cell 3:2:8: does not parse"):
        read_program(saved(tmp_path, "x = 1", "t = SFTTrainer(\nt.train("))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{", "is no notebook: broken JSON"),
        ('{"cells": [], "nbformat": 4}', "has no cell of Python"),
        ('{"cells": [{"cell_type": "code", "source": "x = ("}], "nbformat": 4}', "cell 1:1:5: does not parse"),
        ('{"cells": [], "nbformat": 4, "metadata": {"language_info": {"name": "R"}}}', "is a notebook in R"),
    ],
)
def test_what_is_no_notebook_of_python(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_program(path)
    assert want in str(error.value) and "\n" not in str(error.value)
    assert program_text(path) == text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("# In[1]:\nget_ipython().system('ls')\nx = 1\n", "# In[1]:\nget_ipython().system('ls')\nx = 1\n"),
        ("!pip install trl\nx = 1\n", "get_ipython().system('pip install trl')\nx = 1\n"),
    ],
)
def test_a_notebook_that_was_exported_as_a_script(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)
    program = read_program(path)
    assert is_notebook(path) and program.text == program_text(path) == want
    assert program.place(2) == (0, 2) and program.named('File "train.py", line 2') == 'File "train.py", line 2'


def test_a_script_is_its_own_program(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("x = 1\n")
    assert program_text(path) == "x = 1\n" and not is_notebook(path)

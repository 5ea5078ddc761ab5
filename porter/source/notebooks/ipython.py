"""IPython's own lines as Python, as IPython itself reads them: calls of `get_ipython()`, each on its own line.

`!ls` is `get_ipython().system('ls')`, `%cd out` is `get_ipython().run_line_magic('cd', 'out')`, and a cell that is a
shell script or a file is one call of `run_cell_magic`. The text keeps its number of lines, so that places stay right.
"""

from __future__ import annotations

import re

from .magics import AUTOMAGIC, CELL_MAGIC, code_of, is_python, statement_of, statements

ASKED = "get_ipython()"
HEAD = re.compile(r"%%?(?P<name>[\w.]+)[ \t]*(?P<rest>.*)", re.DOTALL)
GOES_ON = re.compile(r"\\(?:\r\n|\r|\n|$)")


def as_python(cell: str) -> str:
    """The source of a cell as Python of as many lines."""
    magic = CELL_MAGIC.match(cell)
    if magic is None:
        return _lines_as_python(cell)
    before, (head, end, body) = cell[: magic.start("mark")], _first_line(cell[magic.start("mark") :])
    found = HEAD.match(head)
    name, rest = (found["name"], found["rest"].strip()) if found else (magic["name"], "")
    if is_python(cell):
        return f"{before}{_called('run_line_magic', name, rest)}{end}{as_python(body)}"
    return f"{before}{_called('run_cell_magic', name, rest, body)}{end}" + "\n" * len(re.findall(r"\r\n|\r|\n", body))


def _first_line(text: str) -> tuple[str, str, str]:
    found = re.match(r"([^\r\n]*)(\r\n|\r|\n|$)", text)
    assert found is not None
    return found[1], found[2], text[found.end() :]


def _lines_as_python(text: str) -> str:
    parts: list[str] = []
    for whole, magic in statements(text):
        if magic is None:
            parts += [line[0] for line in whole]
            continue
        code = GOES_ON.sub(" ", "\n".join(code_of(whole, magic)))
        before = whole[0]["body"][:magic]
        call = _call(code) if not before.strip() else _assigned(code.strip())
        parts += [before, call, *(line["end"] for line in whole)]
    return "".join(parts)


def _call(code: str) -> str:
    """One line of IPython's as Python."""
    code = code.strip()
    if code.startswith("!"):
        shown = code.startswith("!!")
        return _called("getoutput" if shown else "system", code.lstrip("!").strip())
    if code.startswith("%"):
        statement = statement_of(code)
        if statement is not None:
            return code[statement:]
        found = HEAD.match(code)
        return _called("run_line_magic", found["name"], found["rest"].strip()) if found else "None"
    if AUTOMAGIC.match(code):
        name, _, rest = code.partition(" ")
        return _called("run_line_magic", name, rest.strip())
    return _called("run_line_magic", "pinfo", code.strip("?"))


def _assigned(code: str) -> str:
    """What `x = !ls` or `x = %env` gives."""
    return _called("getoutput", code.lstrip("!").strip()) if code.startswith("!") else _call(code)


def _called(method: str, *texts: str) -> str:
    return f"{ASKED}.{method}({', '.join(map(repr, texts))})"

"""Reading a file: what its names mean, and where everything stands."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from porter.engine.packs.facts import Facts, note_facts
from porter.engine.packs.packs import load_packs
from porter.engine.packs.said_by_packs import facts_in
from porter.engine.pipeline import port_module
from porter.errors import InputError
from porter.port import Options
from porter.source.module import Module, flatten
from porter.source.parsing import parse_module

FACTS = facts_in(load_packs())


def module(text: str | bytes) -> Module:
    return parse_module(text.encode() if isinstance(text, str) else text, "train.py")


def called(text: str) -> list[str | None]:
    """What every call of the text calls, by full import name."""
    found = module(text)
    note_facts(found, FACTS)
    return [found.qualified(call.func) for call in found.calls]


@pytest.mark.parametrize(
    "text",
    [
        "SFTTrainer(1)",
        "class SFTTrainer: ...\nSFTTrainer(1)",
        "def SFTTrainer(): ...\nSFTTrainer(1)",
        "from mine import SFTTrainer as T\nclass T: ...\nT(1)",
        "from trl import SFTTrainer\ndef f(SFTTrainer):\n    SFTTrainer(1)",
        "from trl import SFTTrainer\nSFTTrainer = make()\nSFTTrainer(1)",
        "def f():\n    from trl import SFTTrainer\nSFTTrainer(1)",
        "class A:\n    from trl import SFTTrainer\n    def f(self):\n        SFTTrainer(1)",
        "from . import SFTTrainer\nSFTTrainer(1)",
        "from trl import *\nSFTTrainer(1)",
    ],
)
def test_a_name_that_is_not_trls(text: str) -> None:
    assert "trl.SFTTrainer" not in called(text)


@pytest.mark.parametrize(
    "text",
    [
        "import trl\ntrl.SFTTrainer(1)",
        "import trl as t\nt.SFTTrainer(1)",
        "import trl.trainer.sft_trainer\ntrl.trainer.sft_trainer.SFTTrainer(1)",
        "from trl import SFTTrainer\nSFTTrainer(1)",
        "from trl import SFTTrainer as S\nS(1)",
        "from trl import trainer\ntrainer.SFTTrainer(1)",
        "from trl.trainer import SFTTrainer\nSFTTrainer(1)",
        "from trl.trainer.sft_trainer import SFTTrainer\nSFTTrainer(1)",
        "import trl\nTrainer = trl.SFTTrainer\nTrainer(1)",
        "def f():\n    from trl import SFTTrainer\n    return SFTTrainer(1)",
        "try:\n    from trl import SFTTrainer\nexcept ImportError:\n    pass\nSFTTrainer(1)",
        "from trl import SFTTrainer\nf = lambda: SFTTrainer(1)",
    ],
)
def test_every_way_to_import_is_the_same_class(text: str) -> None:
    assert "trl.SFTTrainer" in called(text)


@pytest.mark.parametrize(
    ("name", "flat"),
    [
        ("trl.trainer.sft_trainer.SFTTrainer", "trl.SFTTrainer"),
        ("transformers.AutoModelForCausalLM.from_pretrained", "transformers.AutoModelForCausalLM.from_pretrained"),
        ("peft.tuners.lora.LoraConfig", "peft.LoraConfig"),
        ("torch.cuda.empty_cache", "torch.cuda.empty_cache"),
        ("mine.trainer.SFTTrainer", "mine.trainer.SFTTrainer"),
    ],
)
def test_flatten(name: str, flat: str) -> None:
    assert flatten(name, FACTS.flat) == flat


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nclass A:\n    def seed(self): ...\ndef check(t):\n    t.seed()\n    t.half\ncheck(torch)",
        "import trl\ndef one(a):\n    return two(a)\ndef two(b):\n    return b.SFTTrainer\none(trl)\ntwo(trl)",
        "import trl\ndef made():\n    return trl.SFTConfig, trl.SFTTrainer\nC, T = made()\nT(C)\nU = T\nU(1)",
        "from trl import SFTTrainer as A\nB = A\nA = B\nA(1)\nB(2)",
    ],
    ids=["handed", "handed on", "given back", "circle"],
)
def test_a_full_name_hangs_on_no_order_of_questions(text: str) -> None:
    """Nor on what was kept meanwhile: asked anew, and from behind, each is the same."""
    found = module(text)
    note_facts(found, FACTS)
    nodes = [node for node in found.parents if isinstance(node, cst.Name | cst.Attribute)]
    first = [found.qualified(node) for node in nodes]
    found.forget_names()
    assert first == [found.qualified(node) for node in reversed(nodes)][::-1]


def test_full_names_are_found_anew_where_packs_tell_of_further_packages() -> None:
    found = module("from ours.training.own import OursTrainer\nOursTrainer(1)")
    assert found.qualified(found.calls[0].func) == "ours.training.own.OursTrainer"
    assert [*found.calls_by_name] == ["ours.training.own.OursTrainer"]
    note_facts(found, Facts(flat=("ours",)))
    assert found.qualified(found.calls[0].func) == "ours.OursTrainer"
    assert [*found.calls_by_name] == ["ours.OursTrainer"]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\ny = f(x)\n",
        "# é\nx = 'ü' ; y = f(x)\n",
        "a = 1\n\fy = f(1)\n",
        "if a:\n\ty = f(1)\r\n",
        "if a:\n  b\n\f  y = f(1)\n",
        "y = f(1)",
    ],
)
def test_positions_are_those_of_the_text(text: str) -> None:
    found = module(text)
    (call,) = found.calls
    assert found.code(call) in ("f(x)", "f(1)")
    start, end = found.span(call)
    assert text[start:end] == found.code(call)
    assert found.line_column(start) == (text[:start].count("\n") + 1, start - text.rfind("\n", 0, start))


def test_a_byte_order_mark_and_a_declared_encoding_are_kept() -> None:
    marked = module("\ufeffx = 1\n".encode())
    assert (marked.bom, marked.text) == (True, "x = 1\n")
    latin = module("# coding: latin-1\nx = 'é'\n".encode("latin-1"))
    assert (latin.encoding, latin.text) == ("iso-8859-1", "# coding: latin-1\nx = 'é'\n")


@pytest.mark.parametrize(("data", "where"), [(b"x = (\n", 1), (b"x = 1\nif x\n    y\n", 2)])
def test_a_syntax_error_has_its_line(data: bytes, where: int) -> None:
    with pytest.raises(InputError, match="does not parse") as error:
        module(data)
    assert error.value.line is not None and error.value.line >= where and error.value.column


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f(a=1,\n  a=2)\n", "2:3: does not compile: keyword argument repeated: a"),
        ("x = 1\nreturn x\n", "2:1: does not compile: 'return' outside function"),
        ("def f():\n    x = 1\n    global x\n", "3:5: does not compile: name 'x' is assigned to before global"),
    ],
)
@pytest.mark.parametrize("lazily", [False, True])
def test_what_python_does_not_compile_is_refused(text: str, said: str, lazily: bool) -> None:
    with pytest.raises(InputError) as error:
        _ = parse_module(text.encode(), "train.py", lazily=lazily).tree
    assert said in str(error.value)


def test_newer_syntax_parses() -> None:
    assert module("match x:\n    case 1:\n        f(1)\ntype A = int\n").calls


def test_references_are_those_of_the_same_binding() -> None:
    found = module("x = 1\nf(x, x=2)\ng.x\ndef h(x):\n    return x\nprint(x)\n")
    uses = found.references("x", found.scopes[found.tree])
    assert [found.location(use)[0] for use in uses] == [2, 6]


@pytest.mark.parametrize(
    "text", ["x: int = 1", "for x in y: ...", "[0 for x in y]", "(x := 1)", "def f(x): ...", "y.x"]
)
def test_what_binds_a_name_is_no_use_of_it(text: str) -> None:
    found = module(f"{text}\n")
    assert found.references("x", found.scopes[found.tree]) == []


def test_a_binding_is_single_when_nothing_else_can_have_been_bound() -> None:
    def single(text: str) -> bool:
        found = module(text)
        argument = found.calls[-1].args[0].value
        assert isinstance(argument, cst.Name)
        return found.single_binding(argument) is not None

    assert single("x = 1\nf(x)")
    assert single("if __name__ == '__main__':\n    x = 1\n    f(x)")
    assert not single("x = 1\nx = 2\nf(x)")
    assert not single("if a:\n    x = 1\nf(x)")
    assert not single("for x in y:\n    f(x)\n    x += 1")


IDLE = [
    "from datasets import load_dataset\\\n\nprint(load_dataset)\n",
    "def f():\n    x = 1\n\\\n    return x\n",
    "if f:\n    f()\n    \\\n    f(2)\n",
    "x = 1 \\\r\n\r\n",
]


@pytest.mark.parametrize("text", IDLE)
def test_a_backslash_that_continues_nothing_is_read_as_nothing(text: str) -> None:
    found = parse_module(text.encode(), "x.py")
    assert (found.as_written, len(found.text)) == (text, len(text))
    assert "\\" not in found.text and ast.dump(ast.parse(found.text)) == ast.dump(ast.parse(text))
    assert port_module(found, Options()).data == text.encode()


@pytest.mark.parametrize(
    "text", ["x = '''a\\\n\nb'''\n", "x = 1 + \\\n\\\n  2\n", "# c \\\n\nx = 1\n", "x = f(\\\n  1)\n"]
)
def test_a_backslash_that_means_something_stays(text: str) -> None:
    assert parse_module(text.encode(), "x.py").text == text


def test_blank_lines_and_a_form_feed_at_the_end_are_read() -> None:
    found = parse_module(b"import os\nos.remove(name)\n\n\x0c", "a.py")
    assert [found.span(call) for call in found.calls] == [(10, 25)]


@pytest.mark.parametrize(
    "caught", ["except ValueError :", "except* ValueError\t:", "except (A, B)  :", "except A as b :"]
)
def test_spaces_before_a_colon_are_read(caught: str) -> None:
    """libcst loses those of an `except`."""
    text = f"try :\n    f(x)\n{caught}\n    g(x)\nelse :\n    h = {{1 : 'except A :'}}\n"
    found = parse_module(text.encode(), "a.py")
    assert [text[slice(*found.span(call))] for call in found.calls] == ["f(x)", "g(x)"]
    assert port_module(found, Options()).data == text.encode()


TABS = """\
def f(rows):
    \"\"\"One
\ttab in a text
    \"\"\"
    for row in rows:
\t    a = row
\t    print(
\t\ta,
\t    )
    return a
"""


def test_tabs_before_spaces_are_read_as_python_reads_them() -> None:
    module = parse_module(TABS.encode(), "train.py")
    assert module.text == TABS and len(module.parsed) == len(TABS)
    assert "\n\ttab in a text" in module.parsed and "\n     a = row" in module.parsed
    (call,) = [call for call in module.calls if module.code(call.func) == "print"]
    assert module.code(call) == "print(\n\t\ta,\n\t    )" and module.location(call)[0] == 7


def test_tabs_that_python_refuses_are_refused() -> None:
    with pytest.raises(InputError, match="does not parse"):
        parse_module(TABS.replace("\t    a = row", "\ta = row").encode(), "train.py")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(a=x):\n    return a", 1),
        ("def f(*, a: x = x):\n    return a", 2),
        ("f = lambda a=x: a", 1),
        ("def f(x=x):\n    return x", 1),  # the default is the outer one's, what is returned the parameter
        ("def f(x, a=1):\n    return x", 0),
    ],
)
def test_a_default_reads_what_stands_outside(text: str, count: int) -> None:
    found = module(f"x = 1\n{text}\n")
    assert len(found.references("x", found.scope(found.tree.body[0]))) == count

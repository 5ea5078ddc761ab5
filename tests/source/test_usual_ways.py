"""Which way a script goes unless its user says another."""

from __future__ import annotations

import libcst as cst
import pytest

from porter.source.parsing import parse_module
from porter.source.project.usual.ways import usual_way

ARGUMENTS = """\
import argparse
import os
from dataclasses import dataclass

parser = argparse.ArgumentParser()
parser.add_argument("--method", default="a")
parser.add_argument("--fast-way", action="store_true")
parser.add_argument("--no_slow", dest="slow", action="store_false")
parser.add_argument("--name")
parser.add_argument("--asked", required=True)
args = parser.parse_args()
SWITCH = False


@dataclass
class Settings:
    quick: bool = True


settings = Settings()
"""


def way(text: str) -> bool | None:
    module = parse_module((ARGUMENTS + text).encode(), "script.py")
    (call,) = (call for call in module.calls if isinstance(call.func, cst.Name) and call.func.value == "here")
    return usual_way(module, call)


@pytest.mark.parametrize(
    ("test", "comes"),
    [
        ("args.method == 'a'", True),
        ("args.method.lower() in ('b', 'c')", False),
        ("args.fast_way", False),
        ("not args.fast_way and args.slow", True),
        ("args.name", False),
        ("args.name is None", True),
        ("args.asked", None),
        ("args.fast_way and args.asked", False),
        ("args.fast_way or args.asked", None),
        ("settings.quick", True),
        ("SWITCH", False),
        ("os.environ.get('WAY', 'a') == 'a'", True),
        ("os.getenv('WAY', default='a') == 'a'", True),
        ("os.path.exists('x')", None),
        ("__name__ == '__main__'", True),
    ],
)
def test_a_condition_is_what_the_defaults_make_it(test: str, comes: bool | None) -> None:
    assert way(f"if {test}:\n    here()\n") is comes
    assert way(f"if {test}:\n    pass\nelse:\n    here()\n") is (None if comes is None else not comes)
    leaves = f"    if {test}:\n        return more()\n"
    other = None if comes is None else not comes
    assert way(f"def more():\n    pass\n\ndef run():\n{leaves}    here()\n\nrun()\n") is other


def test_a_function_is_come_to_where_one_of_its_calls_is() -> None:
    function = "def run():\n    here()\n\n"
    assert way(f"{function}if args.fast_way:\n    run()\n") is False
    assert way(f"{function}if args.fast_way:\n    run()\nrun()\n") is True
    assert way(f"{function}if args.asked:\n    run()\n") is None
    assert way(function) is None


def test_a_run_that_gives_up_is_not_the_usual_one() -> None:
    assert (
        way("def run():\n    if not os.path.exists('x'):\n        print('none')\n        return\n    here()\n\nrun()\n")
        is True
    )
    assert way("def run():\n    if args.method == 'a':\n        return\n    here()\n\nrun()\n") is False


def test_what_is_given_otherwise_is_not_known() -> None:
    assert way("args.fast_way = True\nif args.fast_way:\n    here()\n") is None
    assert way("def run(fast):\n    if fast:\n        here()\n\nrun(args.fast_way)\n") is False
    assert way("def run(fast):\n    if fast:\n        here()\n\nrun(True)\nrun(False)\n") is None
    assert way("try:\n    import x\nexcept ImportError:\n    here()\n") is None

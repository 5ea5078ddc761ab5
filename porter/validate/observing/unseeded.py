"""What a script draws at random without a seed: from one state on both sides, and in every run.

`dataset.train_test_split(0.1)`, `random.shuffle(rows)` and the like give other rows each time that a script is run. The
source and its port would train on different ones, whatever the port is like.
"""

from __future__ import annotations

import ast
import functools
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

SEED = 0
# A set's order is drawn, too: it depends on the hashes of texts, which Python makes anew for each process.
ENVIRONMENT = {"PYTHONHASHSEED": "0"}
NOTE = "what the script draws at random without a seed was drawn alike on both sides"
_OF_DATA = frozenset({"shuffle", "train_test_split"})
_OF_GENERATORS = frozenset(
    "shuffle sample choice choices permutation randint random uniform randrange rand randn normal default_rng".split()
)
_SEEDS = frozenset({"seed", "random_state", "generator"})


def begin_alike(sources: Sequence[str], note: Callable[[str], None]) -> None:
    """Give the generators of this process one state, and say so when the script draws from them unseeded.

    What the script seeds itself counts as it says. torch's generator is the source's alone.
    """
    random.seed(SEED)
    np.random.seed(SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(SEED)  # a loop's own seed is watched for elsewhere
    _seed_generators()
    if any(draws_unseeded(text) for text in sources):
        note(NOTE)


def _seed_generators() -> None:
    """`np.random.default_rng()`, of which streamed datasets make their buffers' order."""
    original: Any = np.random.default_rng

    @functools.wraps(original)
    def default_rng(seed: Any = None) -> Any:
        return original(SEED if seed is None else seed)

    np.random.default_rng = default_rng


def draws_unseeded(text: str) -> bool:
    """Whether Python code draws rows or numbers, and neither gives a seed there nor sets one anywhere."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    names = [(_dotted(call.func), call) for call in ast.walk(tree) if isinstance(call, ast.Call)]
    if any("seed" in name.rpartition(".")[2] for name, _ in names):
        return False
    return any(_draws(name, call) for name, call in names)


def _draws(name: str, call: ast.Call) -> bool:
    owner, _, last = name.rpartition(".")
    if any(keyword.arg in _SEEDS for keyword in call.keywords):
        return False
    if "random" in owner.split("."):
        return last in _OF_GENERATORS and not (last == "default_rng" and call.args)
    numbers = (arg for arg in call.args if isinstance(arg, ast.Constant))
    return last in _OF_DATA and not (last == "shuffle" and any(type(arg.value) is int for arg in numbers))


def _dotted(node: ast.expr) -> str:
    return ".".join(reversed([*_parts(node)]))


def _parts(node: ast.expr) -> Iterator[str]:
    while isinstance(node, ast.Attribute):
        yield node.attr
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id

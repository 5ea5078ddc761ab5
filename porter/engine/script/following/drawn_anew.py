"""Expressions that give another value each time: `f"out/{datetime.now():%H%M%S}"`, `random.randint(0, 9)`.

Where a config is made they are drawn once; written at each use of their value they would be drawn at each.
"""

from __future__ import annotations

import re

import libcst as cst

from ....source.module import Module
from ....source.scopes import inside

DRAWS = re.compile(
    r"datetime\.(?:datetime|date)\.(?:now|utcnow|today)|time\.(?:time|time_ns|strftime|localtime|gmtime|ctime|asctime)"
    r"|uuid\.uuid\d|(?:random|numpy\.random|secrets)\.\w+|tempfile\.\w+|os\.urandom"
)
MAX_DEPTH = 2  # functions of the file that call one another


def is_drawn_anew(module: Module, node: cst.CSTNode | None, depth: int = 0) -> bool:
    """Whether an expression calls the clock or a generator, itself or by a function of the file."""
    calls = [each for each in inside(node) if isinstance(each, cst.Call)] if node is not None else []
    for call in calls:
        if DRAWS.fullmatch(module.qualified(call.func) or ""):
            return True
        binding = module.single_binding(call.func) if isinstance(call.func, cst.Name) else None
        function = binding.node if binding is not None and isinstance(binding.node, cst.FunctionDef) else None
        if function is not None and depth < MAX_DEPTH and is_drawn_anew(module, function.body, depth + 1):
            return True
    return False

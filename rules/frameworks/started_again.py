"""A script that starts itself as another process: `subprocess.run([sys.executable, __file__, "--eval"])`.

What it does: warns where the port holds the TPU by then, as its mesh is made below the imports or in front of the call.
Why: libtpu lets one process in. The child comes to the same mesh as it is started, and ends there.
Example: `subprocess.run([sys.executable, __file__, "--sync-only"], check=True)`
Use instead: the mesh made in the function that trains, or the child's part called in the same process
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, inside, is_dead, origins
from porter.packs.training import facts_of
from porter.packs.writing import holds_devices

ID = "TP010"
ELSEWHERE = re.compile(r"dirname|parent|with_name|join|/")  # another file, beside the script
FIX = "Make the mesh in the function that trains, start the child before it, or call its part in this process."


@step(Phase.NAME)
def name_started_again(porting: Porting) -> None:
    module = porting.module
    if "__file__" not in module.text or porting.trainer is None:
        return
    for call in _starts(module):
        if porting.covered(module.span(call)[0]) or not holds_devices(porting, call):
            continue
        message = "starts this script again while the port holds the TPU: libtpu lets one process in, the child ends."
        porting.find(ID, "warning", f"{module.code(call.func)} {message}", FIX, *module.location(call))


def _starts(module: Module) -> Iterator[cst.Call]:
    """Calls that start this file beside the process that runs it."""
    starts = facts_of(module).starts
    for call in module.calls:
        name = module.qualified(call.func) or ""
        if name not in starts or name.startswith(("os.exec", "runpy.")) or is_dead(module, call):
            continue
        given = [value for argument in call.args for value in origins(module, argument.value)]
        words = [part.value for value in given if isinstance(value, cst.List | cst.Tuple) for part in value.elements]
        parts = [part for value in given for part in inside(value)]
        words += [part.expression for part in parts if isinstance(part, cst.FormattedStringExpression)]
        if any("__file__" in (code := module.code(word)) and not ELSEWHERE.search(code) for word in words):
            yield call

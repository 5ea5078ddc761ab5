"""Assertions of what is installed: they hold for the GPU's environment, and end a port in the TPU's.

    assert "LlamaTokenizer" in transformers._import_structure["models.llama"], "please reinstall it"
    assert version.parse(trl.__version__) < version.parse("0.12")

The release that a script was written for is read from them (`dating`); the port does as that release did.
"""

from __future__ import annotations

import re

import libcst as cst

from ..script.porting import Porting
from ..script.sites import facts_of
from ..steps.step import Phase, step

RULE = "TP006"
REASON = "it asks for the GPU environment's release"


@step(Phase.WRITE, of="trainer", reads=("dropped",), fills=("emptied",))
def drop_release_asserts(porting: Porting) -> None:
    """Take out `assert` statements about the release of a library of the GPU's side."""
    module = porting.module
    if "assert" not in module.text or not porting.options.active(RULE):
        return
    asks = _asks(porting)
    if asks.search(module.text) is None:
        return
    for node in list(module.parents):
        if isinstance(node, cst.Assert) and asks.search(module.code(node.test)):
            if not porting.covered(module.span(node)[0]):
                porting.remove_statement(node, RULE, REASON)


def _asks(porting: Porting) -> re.Pattern[str]:
    """What asks for a release of a library that packs describe, or that only a GPU machine has."""
    names = {rule.library for pack in porting.packs for rule in pack.tables}
    words = "|".join(sorted(names | {*facts_of(porting.module).gpu_side, "flash_attn"}))
    return re.compile(rf"\b_import_structure\b|\b(?:{words})\.__version__|\bversion\(\s*[\"'](?:{words})[\"']")

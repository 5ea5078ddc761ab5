"""`if False:` blocks that would need Unsloth: what its notebooks offer to do next.

What it does: takes out blocks that never run and use Unsloth's names; other blocks that never run stay.
Why: they would keep an import that the TPU machine doesn't have.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import is_elif, is_false

ID = "TP717"
OF_UNSLOTH = r"\bunsloth\b|\bFast(?:Language)?Model\b|\.(?:save_pretrained|push_to_hub)_(?:merged|gguf)\("


@step(Phase.WRITE, of="trainer", fills=("dropped",))
def drop_dead_code(porting: Porting) -> None:
    """Take out the blocks that never run and would need Unsloth; others stay as they are."""
    module = porting.module
    if "unsloth" not in module.roots:
        return
    found = []
    for node in module.parents:
        if not isinstance(node, cst.If) or not is_false(node.test) or node.orelse is not None:
            continue
        if not is_elif(module, node) and re.search(OF_UNSLOTH, module.code(node)):
            found.append(node)
            porting.remove_statement(node, ID, "it never runs, and would need Unsloth")
    if found:
        many = f"{len(found)} blocks from here on never run and would need Unsloth: they are taken out."
        message = many if len(found) > 1 else "This block never runs and would need Unsloth: it is taken out."
        porting.find(ID, "info", message, "", *min(module.location(node) for node in found))

"""Files that train nothing, told by their text alone: most of a folder's, and any that a stranger names.

Each of the searches for something to port or to say begins with a name. Where none of these names stands in a text,
nothing is found in its syntax tree either, so that nobody has to read it.
"""

from __future__ import annotations

import re

from ..port import Options
from ..source.merged import Merged
from ..source.module import Module
from .loops.loop_trainer import may_train_language
from .packs.pack import Pack
from .script.fill_from_tables import configuring, mentions_import, tables_by_class

TRAINER = "Trainer"  # that a table or a refusal knows, or nobody
# The call that every loop by hand makes, `(loss.backward)()` too, and the one beside it where a function has the first.
BACKWARD = re.compile(r"\b(?:backward|zero_grad)\b(?:[\s\\)]|#[^\n]*\n)*\(")
# A configuration of these libraries has a row in the report, whatever the file does.
CONFIGURES = re.compile(r"Config|Arguments")


def is_foreign(module: Module, options: Options, packs: tuple[Pack, ...]) -> bool:
    """Whether nothing of a file can be ported or reported.

    Never of a notebook, of several files, with a launch file or another pack's rules: these have more to say.
    """
    if module.notebook is not None or isinstance(module, Merged) or options.launch_config is not None:
        return False
    if not all(pack.built_in for pack in packs) or TRAINER in module.text:
        return False
    if BACKWARD.search(module.text) is not None and may_train_language(module):
        return False
    if mentions_import(module.text, {name.partition(".")[0] for pack in packs for name in pack.facts.trains}):
        return False
    if mentions_import(module.text, configuring(packs)) and CONFIGURES.search(module.text) is not None:
        return False
    words = {*re.findall(r"\w+", module.text)}
    if any(words.issuperset(name.split(".")) for pack in packs for name in pack.facts.starts):
        return False  # what it starts may train
    return words.isdisjoint(name.rpartition(".")[2] for name in tables_by_class(packs))

"""What a call reads of a file of settings that lies in the project, as code: `yaml.safe_load(open("train.yaml"))`."""

from __future__ import annotations

import re
from pathlib import Path

import libcst as cst

from ..module import Module
from ..project.settings_files import CONFIG, loaded_settings, settings_of
from ..scopes import walk
from ..values import Unknown, evaluate

READERS = re.compile(r"(?:safe_|full_|unsafe_)?loads?(?:_all)?")
LOADED = "what files of settings hold"  # of `Module.memory`, by the call that reads one


def loaded(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """What a call reads, where that can be told: a text of the script, the file that it names, or the only one that the
    script's files name. Its nodes stand nowhere in the script."""
    memory = module.memory.setdefault(LOADED, {})
    if call not in memory:
        memory[call] = _loaded(module, call)
    found: cst.BaseExpression | None = memory[call]
    return found


def _loaded(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else module.code(call.func)
    if READERS.fullmatch(name) is None or module.qualified(call.func) is None or not call.args:
        return None
    try:
        text = evaluate(module, call.args[0].value)
    except Unknown:
        text = None
    if isinstance(text, str) and CONFIG.search(f'"{text}"') is None:
        held = settings_of(text)
    else:
        names = [each.value for each in walk(call) if isinstance(each, cst.SimpleString)]
        held = loaded_settings(" ".join(names), Path(module.path)) or loaded_settings(module.text, Path(module.path))
    return cst.parse_expression(repr(held)) if isinstance(held, dict) else None

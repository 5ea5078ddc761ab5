"""What a call reads of a file of settings that lies in the project, as code: `yaml.safe_load(open("train.yaml"))`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import libcst as cst

from ..launch.launched_with import given_by_launches
from ..module import Module
from ..project.usual.settings_files import CONFIG, hydras_file, loaded_settings, settings_of, settings_together
from ..scopes import walk
from ..values import Unknown, evaluate

READERS = re.compile(r"(?:safe_|full_|unsafe_)?loads?(?:_all)?")
LAUNCHED = "what the files hold that the project's commands give the script"  # of `Module.memory`
LOADED = "what files of settings hold"  # of `Module.memory`, by the call that reads one


def loaded(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """What a call reads, where that can be told: a text of the script, the file that it names, or the only one that the
    script's files name. Its nodes stand nowhere in the script."""
    memory = module.memory.setdefault(LOADED, {})
    if call not in memory:
        memory[call] = _loaded(module, call)
    found: cst.BaseExpression | None = memory[call]
    return found


def composed(module: Module, function: cst.FunctionDef) -> cst.BaseExpression | None:
    """The settings that a function's decorator gives it: `@hydra.main(config_path="conf", config_name="config")`."""
    memory = module.memory.setdefault(LOADED, {})
    if function not in memory:
        memory[function] = None
        for decorator in function.decorators:
            written = hydras_file(module.code(decorator.decorator)) if is_hydra(module, decorator) else ""
            held = settings_together([written], Path(module.path)) if written else None
            memory[function] = cst.parse_expression(repr(held)) if isinstance(held, dict) else None
    found: cst.BaseExpression | None = memory[function]
    return found


def is_hydra(module: Module, decorator: cst.Decorator) -> bool:
    call = decorator.decorator
    return isinstance(call, cst.Call) and module.qualified(call.func) == "hydra.main"


def _launched(module: Module) -> dict[Any, Any] | None:
    """What the files of settings that the project's commands give the script hold together."""
    if LAUNCHED not in module.memory:
        script = Path(module.path)
        module.memory[LAUNCHED] = settings_together(given_by_launches(script).files, script)
    found: dict[Any, Any] | None = module.memory[LAUNCHED]
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
        if held is None and CONFIG.search(module.text) is None:
            held = _launched(module)
    return cst.parse_expression(repr(held)) if isinstance(held, dict) else None

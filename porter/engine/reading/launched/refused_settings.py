"""What the project's own files of settings say of a parser's classes, where the port refuses it at its start.

    model_args, args = TrlParser((ModelConfig, DPOConfig)).parse_args_and_config()

    python train.py --config dpo.yaml  # of a README; `lora_modules_to_save: ["lm_head"]`

A parser's objects are judged when the port runs; by what the project's commands give them it is known before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libcst as cst

from ....recipe import Severity, Value, literal_code, read_literal
from ....runtime.facts.argument_fields import CLASSES
from ....runtime.facts.field_tables import Row, find_table
from ....source.calls import class_of
from ....source.launch.launched_with import given_by_launches
from ....source.project.usual.settings_files import settings_together
from ...script.fill_from_tables import judge, plain_versions
from ...script.subclasses import imported_base
from ...script.training import Training
from ...steps.step import Phase, step

PARSER = "Parser"
BY_WHAT_IT_HOLDS = "mesh.zero"  # a file, which the port reads at its start
ASKED = ("what the project's files say of a parser's classes",)


@step(Phase.READ, of="trainer", reads=("arguments_object", "lora_object"), fills=("refused settings",))
def say_refused_settings(porting: Training) -> None:
    """An error for a setting that every such file has, a warning for one of some: the port may be started with
    another."""
    if ASKED in porting.answers:
        return
    porting.answers[ASKED] = True
    module = porting.module
    parsers = [call for call in module.calls if (module.qualified(call.func) or "").endswith(PARSER)]
    files = given_by_launches(Path(module.path)).files if parsers else ()
    held = {name: found for name in files if (found := settings_together([name], Path(module.path)))}
    for call in parsers:
        for name, rows in _classes(porting, call):
            for key in dict.fromkeys(key for found in held.values() for key in found if key in rows):
                given = {file: found.get(key) for file, found in held.items()}
                if rows[key].place != BY_WHAT_IT_HOLDS:
                    _say(porting, call, f"{name}.{key}", rows[key], given)


def _say(porting: Training, call: cst.Call, source: str, row: Row, given: dict[str, Any]) -> None:
    """What is said of one setting, which the files give, each its own; None where a file doesn't."""
    judged = {file: judge(_value(held), row) for file, held in given.items() if held is not None}
    refused = {file: why for file, (fate, why) in judged.items() if fate == "manual"}
    if not refused:
        return
    file, why = next(iter(refused.items()))
    message = f"{source}={given[file]!r} of {Path(file).name}, with which the project starts the script: the port"
    message += f" refuses it at its start: {why.rstrip('.')}."
    fix = "Settle it there before the port is started, or give the port another file."
    severity: Severity = "error" if len(refused) == len(given) else "warning"
    assert porting.trainer is not None
    porting.find(porting.trainer.rule, severity, message, fix, *porting.module.location(call))


def _value(held: object) -> Value:
    """What a file holds as a value of the script's; of YAML's dates, which Python has no literal of, the text."""
    code = literal_code(held)
    try:
        read_literal(code)
    except (ValueError, SyntaxError):
        code = literal_code(str(held))
    return Value("literal", code)


def _classes(porting: Training, call: cst.Call) -> Iterator[tuple[str, dict[str, Row]]]:
    """The classes of libraries that a parser makes objects of, or that the file's own extend, each with its fields."""
    module, versions = porting.module, plain_versions(porting)
    for argument in call.args:
        several = argument.value
        given = several.elements if isinstance(several, cst.Tuple | cst.List) else ()
        for node in [element.value for element in given] or [several]:
            base = imported_base(module, node) if class_of(module, node, instance=False) is not None else node
            name = (module.qualified(base) or "").rpartition(".")[2] if base is not None else ""
            if name in CLASSES:
                yield module.code(node), find_table(CLASSES[name]).rows(versions)

"""A file without a trainer or a loop that the rules read, and what trains in it all the same.

    from src.trainer import DistillTrainer
    DistillTrainer(model, args).train()

Nobody may take silence for "nothing to port": its name and the next step are said.
"""

from __future__ import annotations

import re

import libcst as cst

from ....source.module import Module
from ....source.project.modules import project_file, project_text
from ...script.fill_from_tables import OWN_WAY, mentions_import, trainers_known
from ...script.sites import facts_of
from ...script.subclasses import class_of, imported_base
from ...script.training import Training
from ..loop_trainer import loop_table, trains_language
from ..statements.advice import by_objective
from .embedded_scripts import embedded_script
from .started import OF_A_PORT, say_started

RULE = "TP004"
TRAINER = re.compile(
    r"(?:\w+\.)*\w*Trainer(?!\w*(?:Callback|State|Control|Config|Args|Arguments|Mixin)\b)(?:[A-Z]\w*)?"
)
MAKES = re.compile(r"Trainer\w*\(")
RUNS = re.compile(r"\.(?:train|fit|learn|finetune|fine_tune)\(")
MADE = re.compile(r"(?:\w+\.)*\w*[Tt]rainer\w*\(")
BY_SCRIPT = "Write that training as a script of TRL or transformers and port it"


def find_unknown_training(porting: Training) -> str | None:
    """The name of what trains here though no rule reads it, recorded as a finding; None where nothing does."""
    text = porting.module.text
    if not porting.options.active(RULE):
        return say_started(porting)
    if (name := _framework(porting)) is not None:
        return name
    if mentions_import(text, OF_A_PORT) and porting.module.roots & OF_A_PORT:
        return say_started(porting)
    if MAKES.search(text) or ".backward(" in text:
        if (name := _unknown_trainer(porting) or _lone_step(porting)) is not None:
            return name
    if ".zero_grad(" in text and (name := _backward_elsewhere(porting)) is not None:
        return name
    return _made_elsewhere(porting) or embedded_script(porting, RULE) or say_started(porting)


def _framework(porting: Training) -> str | None:
    """A call of a library that trains by a configuration of its own."""
    module, trains = porting.module, facts_of(porting.module).trains
    if not mentions_import(module.text, {name.partition(".")[0] for name in trains}):
        return None
    for call in module.calls:
        if (name := module.qualified(call.func)) in trains:
            message = f"{name} trains by a configuration of its own, which no rule reads."
            fix = f"{BY_SCRIPT}, or write the port by hand."
            porting.find(RULE, "error", message, fix, *module.location(call), todo=False)
            return name
    return None


def _unknown_trainer(porting: Training) -> str | None:
    module, known, facts = porting.module, trainers_known(porting), facts_of(porting.module)
    trains = not module.roots.isdisjoint((*facts.language_models, *facts.all_trainers_read, *facts.beside_training))
    if not MAKES.search(module.text) or not RUNS.search(module.text):
        return None
    for call in module.calls:
        name = module.code(call.func)
        if not TRAINER.fullmatch(name):
            continue
        own = class_of(module, call.func) is not None or _is_shadowed(module, call.func)
        base = imported_base(module, call.func)
        home = module.qualified(base) or ""
        made = not home and _is_made(module, call.func)
        short = name.rpartition(".")[2]
        class_name = next((each for each in known if each.endswith(f".{short}")), "")
        if not home and _is_nowhere(module, call.func) and class_name in known and trains:
            message = f"{name} trains here, and nothing imports it: a run ends at this line."
            fix = f"Import it: from {class_name.partition('.')[0]} import {short}."
            porting.find(RULE, "error", message, fix, *module.location(call), todo=False)
            return class_name
        if home in known or not (home or ((own or made) and trains)):
            continue
        line, column = module.location(call)
        if made:
            message = f"{name} is chosen when the script runs: which class trains can't be told from here."
            where = f": from {class_name.partition('.')[0]} import {short}" if class_name else ""
            fix = f"Import the class by its name{where}."
            porting.find(RULE, "error", message, fix, line, column, todo=False)
            return name
        package, library = home.partition(".")[0], class_name.partition(".")[0]
        if class_name in known and package in {*facts.all_trainers_read} - {library} and not own:
            message = f"{name} is imported from {package}, which has no such class: a run ends at its import."
            fix = f"Import it from where it is: from {library} import {short}."
            porting.find(RULE, "error", message, fix, line, column, todo=False, key=OWN_WAY)
            return class_name
        said = f"{name} is a class of this file" if own else f"{name} is {home}"
        if own and home:
            said = f"{name} extends {home}"
        message = f"{said}, which no rule reads: what it trains can't be told from here."
        fix = "Port the folder that it stands in if it extends a trainer of TRL or transformers: tpu-port DIR -o OUT."
        if home and not home.startswith(".") and not project_file(module.path, home):
            fix = f"{BY_SCRIPT}, or keep it on the GPU."
        porting.find(RULE, "error", message, fix, line, column, todo=False, key=OWN_WAY)
        return home or name
    return None


def _made_elsewhere(porting: Training) -> str | None:
    """A trainer that a function of another module makes: `trainer = load_trainer(model, rows)`, `trainer.train()`."""
    module = porting.module
    if not RUNS.search(module.text) or not MADE.search(module.text):
        return None
    for call in module.calls:
        held = call.func.value if isinstance(call.func, cst.Attribute) and call.func.attr.value == "train" else None
        made = module.single_binding(held) if isinstance(held, cst.Name) else None
        if made is None or not isinstance(made.value, cst.Call) or not MADE.match(f"{module.code(made.value.func)}("):
            continue
        home = module.qualified(made.value.func) or ""
        if not home and isinstance(made.value.func, cst.Name) and _is_made(module, made.value.func):
            name = made.value.func.value
            message = f"{name} is chosen when the script runs: which class trains can't be told from here."
            fix = "Import the class by its name."
            porting.find(RULE, "error", message, fix, *module.location(call), todo=False)
            return name
        if not home or not project_file(module.path, home):
            continue
        message = f"{module.code(made.value.func)} is {home}, which makes the trainer in another file of the project."
        fix = "Port the script that calls it as a .py file: its project's modules are ported with it."
        porting.find(RULE, "error", message, fix, *module.location(call), todo=False)
        return home
    return None


def _is_nowhere(module: Module, name: cst.BaseExpression) -> bool:
    """Whether nothing of the file binds a name, not even an import of all that a module has."""
    if not isinstance(name, cst.Name) or name.value in module.bound_names:
        return False
    return not any(isinstance(node, cst.ImportStar) for node in module.parents)


def _is_shadowed(module: Module, name: cst.BaseExpression) -> bool:
    """Whether a class of this file takes the name of a trainer that is imported, too."""
    found = module.meaning(name)
    return found is not None and any(isinstance(binding.node, cst.ClassDef) for binding in found[1])


def _is_made(module: Module, name: cst.BaseExpression) -> bool:
    """Whether a name is bound to what a call gives: `GRPOTrainer, GRPOConfig = load_trl()`, `getattr(trl, "X")`."""
    found = module.meaning(name)
    return found is not None and any(isinstance(binding.value, cst.Call) for binding in found[1])


def _lone_step(porting: Training) -> str | None:
    """`loss.backward()` and `optimizer.step()` outside of a loop over batches."""
    module = porting.module
    if ".backward(" not in module.text or not trains_language(porting):
        return None
    steps = [call for call in module.calls if _is_method(call, "step")]
    for call in module.calls:
        if steps and _is_method(call, "backward"):
            line, column = module.location(call)
            message = f"{module.code(call)} trains outside of a loop over batches, which is what a port is made of."
            fix = "Write it as a loop over a DataLoader, or write the port's step by hand."
            fix = by_objective(module, call) or fix
            porting.find(RULE, "error", message, fix, line, column, todo=False)
            table = loop_table(porting)
            return table.names[0] if table is not None else module.code(call)
    return None


def _backward_elsewhere(porting: Training) -> str | None:
    """A loop that steps here, and whose `loss.backward()` a function of another module runs."""
    module = porting.module
    stepped, emptied = (_objects_of(module, name) for name in ("step", "zero_grad"))
    if stepped.isdisjoint(emptied) or not trains_language(porting):
        return None
    for call in module.calls:
        home = module.qualified(call.func) or ""
        text = project_text(module.path, home) if home else None
        if text is None or ".backward(" not in _definition(text, home.rpartition(".")[2]):
            continue
        where = f"{module.code(call.func)} ({project_file(module.path, home)})"
        message = f"{where} has the loss.backward() of the loop here: a port is made of a loop that has it all."
        fix = "Write its lines into the loop, or train with the trainer of TRL for what it trains."
        porting.find(RULE, "error", message, fix, *module.location(call), todo=False)
        table = loop_table(porting)
        return table.names[0] if table is not None else home
    return None


def _definition(text: str, name: str) -> str:
    """The text of a module's function or class; "" where it has none of that name."""
    found = re.search(
        rf"(?ms)^(?:async +)?(?:def|class) +{re.escape(name)}\b.*?(?=^(?:async |def |class |@|if )|\Z)", text
    )
    return found[0] if found is not None else ""


def _objects_of(module: Module, method: str) -> set[str]:
    """What a method is called of, as it is written."""
    called = [call.func for call in module.calls]
    return {module.code(at.value) for at in called if isinstance(at, cst.Attribute) and at.attr.value == method}


def _is_method(call: cst.Call, name: str) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == name

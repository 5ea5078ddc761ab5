"""Checkpoints of the run that a script reads as transformers wrote them: the port's are Orbax's.

    trainer.train()
    model = PeftModel.from_pretrained(base, "out/checkpoint-300")

There is no such folder, and Orbax's `out/300` has neither an adapter_config.json nor a tokenizer. Neither does a script
find its checkpoints by `checkpoint-` in front of their numbers.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, Value, step
from porter.packs.script import Module, Unknown, evaluate, function_around, inside, is_same, origins, role_uses
from porter.packs.training import in_callback, is_behind

PART_OF = "TP314"
LISTS = re.compile(r"\b(listdir|i?glob|iterdir|scandir|walk)\(")  # what gives the names in a folder

LAST = ("transformers.trainer_utils.get_last_checkpoint", "transformers.get_last_checkpoint")
# Of the module's memory.
ASKED, GIVEN, SAVING = "whether checkpoints are named", "what functions give back", "what may save a model"
NAMED = re.compile(r"""(?:^|[/\\}"'])checkpoint-""")
# `checkpoint-500`, `glob("out/checkpoint*")`, `name.startswith("checkpoint")`, `"checkpoint" in name`.
NAMES = re.compile(
    r"""["']([^"'\n]*/)?checkpoint[-_*?\d\\]|\bstartswith\(\s*["']checkpoint["']|["']checkpoint["']\s+in\b"""
)
SAVES = re.compile(r"save_model|save_pretrained|push_to_hub|save_lora|save_state_dict|save_checkpoint")
SAVED = frozenset({"save_adapter", "save_model", "save_merged", "push_to_hub"})


@step(Phase.NAME, of="trainer", fills=("checkpoints",))
def say_read_checkpoints(porting: Porting) -> None:
    """Name the `from_pretrained` calls behind the training that are given one of its checkpoints."""
    module = porting.module
    if "checkpoint" not in module.text or porting.trainer is None:
        return
    for call in module.calls:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "from_pretrained":
            continue
        if not is_behind(porting, call) and not _is_between(porting, call):
            continue
        given = next((arg.value for arg in call.args if _is_checkpoint(porting, arg.value)), None)
        if given is None:
            continue
        said = f"{module.code(func)}({module.code(given)})"
        message = f"{said}: the port's checkpoints are Orbax's, and hold neither a config nor a tokenizer."
        fix = "Save with rt.save_model behind the training and read that folder, or use tpu-port export."
        porting.find(PART_OF, "error", message, fix, *module.location(call))


def _is_between(porting: Porting, call: cst.Call) -> bool:
    """Whether a call stands behind what this trainer has trained, and in front of another trainer, as its model may."""
    module, holder = porting.module, function_around(porting.module, call)
    trained = [use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()"]
    here = [each for each in trained if function_around(module, each) is holder]
    return bool(here) and not module.loops(call) and max(module.span(each)[1] for each in here) <= module.span(call)[0]


@step(Phase.NAME, of="trainer")
def say_only_checkpoints(porting: Porting) -> None:
    """Say that what is trained lies in checkpoints alone, where nothing of the file saves it or gives it back."""
    site, strategy = porting.trainer, porting.value("save.strategy")
    if site is None or porting.loop is not None:
        return
    never = strategy is not None and strategy.known and str(strategy.literal) in ("no", "False")
    trains = any(use.match == "@trainer.train()" for use in role_uses(porting, "trainer"))
    if never or not trains or _may_save(porting):
        return
    names = "|".join(
        re.escape(name) for name in sorted({porting.names.model, porting.names.trainer, str(site.variable)})
    )
    called = {name.rpartition(".")[2] for edit in porting.edits for name in edit.calls}
    if _is_given_back(porting, names) or not SAVED.isdisjoint(called):
        return
    what = "a PEFT adapter" if porting.saves_adapter else "a model of transformers"
    message = f"Only checkpoints hold what is trained, and the port's are Orbax's, not {what}."
    call = f"rt.{'save_adapter' if porting.saves_adapter else 'save_model'}({porting.names.model}, folder)"
    fix = f"tpu-port export makes one of them; {call} behind the training saves it at once."
    porting.find(PART_OF, "info", message, fix, site.line, site.column)


def _is_given_back(porting: Porting, names: str) -> bool:
    """Whether a function that trains returns or yields one of several names, which stand as a pattern, behind it.

    What a loader gives back isn't trained yet.
    """
    module = porting.module
    trained = [use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()"]
    for call in trained:  # a function that calls one that trains does so, too
        function = function_around(module, call)
        if function is not None:
            further = [other for other, callee in module.callees.items() if callee is function]
            trained += [other for other in further if other not in trained]
    if GIVEN not in module.memory:  # once a file, for all its trainers
        module.memory[GIVEN] = [node for node in module.parents if isinstance(node, cst.Return | cst.Yield)]
    for node in module.memory[GIVEN]:
        if node.value is None or re.search(rf"\b(?:{names})\b", module.code(node.value)) is None:
            continue
        holder, start = function_around(module, node), module.span(node)[0]
        if any(module.span(call)[0] <= start for call in trained if function_around(module, call) is holder):
            return True
    return False


def _may_save(porting: Porting) -> bool:
    """Whether a call of the file may save the model: a method that does, or a function about saving that gets it."""
    if SAVING not in porting.module.memory:  # once a file, for all its trainers
        porting.module.memory[SAVING] = _saving(porting.module)
    always, words = porting.module.memory[SAVING]
    given = {porting.names.model, porting.names.trainer, getattr(porting.trainer, "variable", None)}
    return always or not words.isdisjoint(name for name in given if name)


def _saving(module: Module) -> tuple[bool, frozenset[str]]:
    """Whether a method of the file saves a model, and the words of what functions about saving get."""
    words: set[str] = set()
    for call in module.calls:
        func = call.func
        if isinstance(func, cst.Attribute) and SAVES.search(func.attr.value):
            if re.search(r"(?i)token|processor|data|rows", module.code(func.value)) is None:
                return True, frozenset()
        elif re.search(r"(?i)save|upload|push|export|merge", module.code(func)):
            words.update(word for argument in call.args for word in re.findall(r"\w+", module.code(argument)))
    return False, frozenset(words)


@step(Phase.NAME, of="trainer", fills=("checkpoints",))
def say_listed_checkpoints(porting: Porting) -> None:
    """Name the places behind the training, or in a callback, that list checkpoints by transformers' name, of which
    there are none."""
    module = porting.module
    if porting.trainer is None:
        return
    if ASKED not in module.memory:  # once a file, for all its trainers
        module.memory[ASKED] = NAMES.search(module.text) is not None
    if not module.memory[ASKED]:
        return
    trained = [module.span(use.outer)[1] for use in role_uses(porting, "trainer") if use.match == "@trainer.train()"]
    for call in module.calls if trained else ():
        statement = module.statement(call)
        if LISTS.search(f"{module.code(call.func)}(") is None:
            continue
        behind = module.span(statement)[0] >= max(trained) and is_behind(porting, statement)
        if not behind and not in_callback(module, call):
            continue
        if porting.covered(module.span(call)[0]) or NAMES.search(module.code(statement)) is None:
            continue
        message = f"{module.code(call)}: the port's checkpoints are Orbax's, `500` in place of `checkpoint-500`."
        fix = "rt.get_last_checkpoint(folder) gives the newest; each holds a trainer_state.json."
        porting.find(PART_OF, "error", message, fix, *module.location(call))


def _is_checkpoint(porting: Porting, node: cst.BaseExpression) -> bool:
    module = porting.module
    for value in origins(module, node):
        if isinstance(value, cst.Call) and module.qualified(value.func) in LAST:
            return True
        if isinstance(value, cst.Attribute) and value.attr.value == "best_model_checkpoint":
            return True
        if NAMED.search(module.code(value)) is not None and is_in_output(porting, value):
            return True
    return False


def is_in_output(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether a path lies in the folder that the trainer saves to."""
    given = porting.config.argument("output_dir") if porting.config is not None else None  # of a config that stays, too
    folder = given.value if given is not None else porting.value("run.output_dir")
    if folder is None:
        return False
    output = _plain(folder.literal) if folder.known else ""
    texts = [part for part in inside(node) if isinstance(part, cst.SimpleString)]
    if output and texts and _plain(texts[0].evaluated_value) == output:  # os.path.join("out", "checkpoint-300")
        return True
    parts = [part for part in inside(node) if isinstance(part, cst.BaseExpression)]
    starts = [part.parts[0] for part in parts if isinstance(part, cst.FormattedString) and part.parts]
    if output and any(isinstance(at, cst.FormattedStringText) and _is_below(at.value, output) for at in starts):
        return True
    if any(_is_folder(porting, value, folder) for part in parts for value in origins(porting.module, part)):
        return True
    try:
        path = _plain(evaluate(porting.module, node))
    except Unknown:
        return False
    return bool(output) and _is_below(path, output)


def _is_below(path: str, output: str) -> bool:
    """Whether a path is a checkpoint's in a folder; of which one may be said from the root, `/content/out`."""
    folder, named, _ = _plain(path).partition("/checkpoint-")
    return bool(named) and (folder == output or folder.endswith(f"/{output}") or output.endswith(f"/{folder}"))


def _plain(path: object) -> str:
    return str(path).removeprefix("./").rstrip("/")


def _is_folder(porting: Porting, node: cst.BaseExpression, folder: Value) -> bool:
    """Whether an expression is the output folder, as the script gives it or reads it of its arguments."""
    module = porting.module
    if isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.BinaryOperation | cst.FormattedString):
        if module.code(node) in (folder.text, folder.code):
            return True
    if not isinstance(node, cst.Attribute) or node.attr.value != "output_dir" or porting.trainer is None:
        return False
    given, held = porting.trainer.argument("args"), node.value
    if isinstance(held, cst.Attribute) and held.attr.value == "args":  # trainer.args.output_dir
        return any(value is porting.trainer.node for value in origins(module, held.value))
    if given is not None and given.node is not None and is_same(module, held, given.node):
        return True
    return porting.config is not None and any(value is porting.config.node for value in origins(module, held))

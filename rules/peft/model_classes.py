"""`isinstance(model, PeftModel)`, `isinstance(model, LlamaForCausalLM)`: decided as it was for the torch model.

What it does: which class the model had follows from what loads it and from where adapters are put in; a condition keeps
the branch that ran, an `assert` that held goes. Where the port alone learns the architecture, it asks the model's
config; where it alone learns whether there are adapters, it asks the model. What can't be told is an error, and so is
what is decided by `type(model)` or `model.__class__`.
Why: the port's model is Tunix's, which is none of these classes: the script would go the other way, or end.
Example: `if isinstance(trainer.model, PeftModel): ...`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Literal, cast

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import (
    Module,
    decide_condition,
    find_family,
    only_logs,
    origins,
    role_uses,
)

from ._kinds_of_models import kinds_of, made, puts_in, takes_out

ID = "TP213"
REASON = "what the source's model was, which is Tunix's now"
FIX = "Write the branch that the GPU run took."
LIBRARIES = ("transformers.", "peft.", "unsloth.", "torch.nn.Module")
ADAPTED = re.compile(r"peft\.(?:\w+\.)*Peft(?:Mixed)?Model(?:ForCausalLM)?$")
ANY_MODEL = ("Module", "PushToHubMixin")
UNADAPTED = ("PreTrainedModel", "GenerationMixin", "ModuleUtilsMixin")
# What a PeftModel has and transformers' model hasn't, and what both have.
OF_ADAPTED = frozenset(
    "peft_config peft_type merge_and_unload unload print_trainable_parameters get_base_model".split()
)
OF_BOTH = frozenset({"base_model"})
PRINTS = re.compile(r"(?:^|\.)(?:print|log|info|debug|warning|rprint)$")
CLASS = re.compile(r"(?:model\.)?__class__\b")
ASKERS = "calls that may ask for a class"  # of the module's memory
# What the port asks the model for when it runs, beside its model_type.
ALONE = (cst.If, cst.IfExp, cst.Assert, cst.Assign, cst.Arg, cst.Return, cst.BooleanOperation)  # no parentheses in it
HAS_ADAPTERS, HAS_NONE = "is not None", "is None"
OPPOSITE = {HAS_ADAPTERS: HAS_NONE, HAS_NONE: HAS_ADAPTERS}
Kind = Literal["adapted", "whole", "unknown"]


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def decide_classes(porting: Porting) -> None:
    """Decide every `isinstance` and `hasattr(model, "peft_config")` of the model, or have the port ask."""
    asked = {call: answer for call, answer in _asked(porting, "isinstance", "hasattr") if answer not in (None, "")}
    told: dict[cst.CSTNode, bool | str] = {}
    for call, answer in asked.items():
        told[call] = answer if isinstance(answer, bool) else f"({_question(porting, call, str(answer))})"
    for call, answer in asked.items():  # all of a condition at once
        if isinstance(answer, bool):
            decide_condition(porting, call, told.get, ID, REASON)
    for call, answer in asked.items():
        if isinstance(answer, str) and not porting.covered(porting.module.span(call)[0]):
            _ask(porting, call, answer)


# Last, so that what other rules take out is not named.
@step(Phase.NAME, of="trainer")
def name_classes(porting: Porting) -> None:
    """An error for each question that nobody can answer, and for what is made of `type(model)`."""
    for call, answer in _asked(porting, "isinstance", "hasattr"):
        if answer is None:
            code = " ".join(porting.module.code(call).split())
            message = f"{code}: which class the model had can't be told here, and the port's is Tunix's."
            porting.find(ID, "error", message, FIX, *porting.module.location(call))
    for call, _ in _asked(porting, "type"):
        _name_type(porting, call)
    for use in role_uses(porting):
        if CLASS.match(use.chain) and not porting.covered(porting.module.span(use.outer)[0]):
            _name_type(porting, use.outer)


def _asked(porting: Porting, *functions: str) -> Iterator[tuple[cst.Call, bool | str | None]]:
    """The calls of `functions` that ask for the class of the model and still stand, with what `_answer` says."""
    calls = _askers(porting.module)
    uses = role_uses(porting) if calls else ()
    models: set[cst.CSTNode] = {use.outer for use in uses if use.match in ("@model", "@trainer.model")}
    named = models | {use.name for use in uses if use.role == "model"}
    for call in calls:
        called = call.func.value if isinstance(call.func, cst.Name) else None
        if called not in functions or porting.covered(porting.module.span(call)[0]):
            continue
        node = call.args[0].value
        if node not in models and not _is_merged(porting, node, named):
            continue
        if called == "isinstance" and len(call.args) == 2:
            answer = _answer(porting, node, call)
            is_type = isinstance(answer, str) and answer not in ("", *OPPOSITE)
            yield call, None if is_type and node not in models else answer
        elif called == "hasattr" and (name := porting.module.code(call.args[-1].value)[1:-1]) in OF_ADAPTED | OF_BOTH:
            answers = {"adapted": True, "whole": name in OF_BOTH}
            yield call, _of_kind(porting, node, answers.__getitem__)
        elif called == "type":
            yield call, None


def _askers(module: Module) -> list[cst.Call]:
    """The calls of the file that may ask for a class: the same for all its trainers."""
    if ASKERS not in module.memory:
        given = [call for call in module.calls if call.args]
        module.memory[ASKERS] = [call for call in given if module.code(call.func) in ("isinstance", "hasattr", "type")]
    found: list[cst.Call] = module.memory[ASKERS]
    return found


def _answer(porting: Porting, node: cst.BaseExpression, call: cst.Call) -> bool | str | None:
    """One `isinstance`: true where one of its classes is the model's, false where none is; a model_type where its
    config tells, None where nobody can, and an empty text where no class of a library is asked for."""
    asked = _classes(porting.module, call.args[1].value)
    names = [porting.module.qualified(each) or "" for each in asked]
    if not any(name.startswith(LIBRARIES) for name in names):
        return ""  # `isinstance(model, str)`, a class of the file
    return _of_kind(porting, node, lambda kind: _is_one(porting, names, kind))


def _is_one(porting: Porting, names: list[str], kind: Kind) -> bool | str | None:
    """The same for a model of a kind."""
    said = [_is_of(porting, name, kind) for name in names]
    if True in said or all(each is False for each in said):
        return True in said
    types = {each for each in said if isinstance(each, str)}
    return types.pop() if len(types) == 1 and None not in said else None


def _of_kind(
    porting: Porting, node: cst.BaseExpression, answer: Callable[[Kind], bool | str | None]
) -> bool | str | None:
    """What is answered of the model that stands there. Where its kind can't be told, that on which both agree, or what
    the port can ask: whether it has adapters."""
    kind = _kind(porting, node)
    if kind != "unknown":
        return answer(kind)
    adapted, whole = answer("adapted"), answer("whole")
    if not isinstance(adapted, bool) or not isinstance(whole, bool):
        return None
    if adapted is whole:
        return adapted
    return (HAS_ADAPTERS if adapted else HAS_NONE) if _keeps_kind(porting, node) else None


def _keeps_kind(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether the port's model has adapters where the source's was a PeftModel: but for the model that a trainer was
    given and put adapters into, which the script's own name doesn't show."""
    if any(use.outer is node and use.match == "@trainer.model" for use in role_uses(porting)):
        return True
    if porting.inject is not None or porting.branch_injects:
        return porting.trainer is None or porting.trainer.argument("peft_config") is None
    return porting.lora is None and not porting.lora_object


def _is_merged(porting: Porting, node: cst.BaseExpression, models: Collection[cst.CSTNode]) -> bool:
    """Whether a value may be `model.merge_and_unload()` of the model."""
    calls = (value for kind, value in made(porting, node) if kind == "merged")
    return any(call.func.value in models for call in calls)  # type: ignore[attr-defined]


def _ask(porting: Porting, call: cst.Call, asked: str) -> None:
    """Have the port ask its model: for adapters, or for its model_type."""
    node, parent = cast(cst.CSTNode, call), porting.module.parents[call]
    if asked in OPPOSITE and isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        asked, node, parent = OPPOSITE[asked], parent, porting.module.parents[parent]
    new = _question(porting, call, asked)
    porting.edit(*porting.module.span(node), new if isinstance(parent, ALONE) else f"({new})", ID, REASON)


def _question(porting: Porting, call: cst.Call, asked: str) -> str:
    model = porting.module.code(call.args[0].value)
    if asked in OPPOSITE:
        return f'getattr({model}, "lora", None) {asked}'
    return f'{porting.rt("model_config")}({model}).model_type == "{asked}"'


def _name_type(porting: Porting, node: cst.CSTNode) -> None:
    """`type(model)` and `model.__class__` are named where more than a line of a log, or a method bound by
    `f.__get__(...)`, is made of them."""
    for around in porting.module.ancestors(node):
        if isinstance(around, cst.Call) and (
            PRINTS.search(porting.module.code(around.func))
            or only_logs(porting.module, around)
            or porting.module.code(around.func).endswith(".__get__")
        ):
            return
        if isinstance(around, cst.BaseStatement):
            break
    message = f"{porting.module.code(node)} is Tunix's class now, not transformers' or PEFT's."
    porting.find(ID, "error", message, FIX, *porting.module.location(node))


def _classes(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The classes that an `isinstance` names: one, a tuple, `A | B`, or a name of these."""
    if isinstance(node, cst.Tuple):
        return [inner for element in node.elements for inner in _classes(module, element.value)]
    if isinstance(node, cst.BinaryOperation):
        return [inner for part in (node.left, node.right) for inner in _classes(module, part)]
    made = module.single_binding(node) if module.qualified(node) is None else None
    if made is not None and isinstance(made.value, cst.Tuple | cst.BinaryOperation):
        return _classes(module, made.value)
    return [node]


def _kind(porting: Porting, node: cst.BaseExpression) -> Kind:
    """Whether what stands there was a PeftModel when the source came there, or transformers' model."""
    module = porting.module
    trainers = {use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.model"}
    kinds = kinds_of(porting, node)
    for value in (node, *origins(module, node)):
        if value in trainers:
            return _trained_kind(porting)
        if puts_in(porting, value):
            return "unknown" if "merged" in kinds else "adapted"
        if porting.model is not None and value is porting.model.node:
            break
        if takes_out(value):
            return "whole"
    else:
        if porting.foreign_model or porting.inject is not None or porting.branch_injects:
            return "unknown"
    return "unknown" if "adapted" in kinds else "whole"


def _trained_kind(porting: Porting) -> Kind:
    """The same of the trainer's model, which the trainer may have put adapters into."""
    given = porting.trainer.argument("model") if porting.trainer is not None else None
    if given is not None and given.node is not None and not given.value.known:
        kind = _kind(porting, given.node)
        if kind != "whole":
            return kind
    if porting.inject is None and porting.lora is not None:
        return "adapted"
    return "unknown" if porting.foreign_model or porting.lora_object else "whole"


def _is_of(porting: Porting, name: str, kind: Kind) -> bool | str | None:
    """Whether a model of a kind is of a class; a model_type where its config tells, None where nobody can."""
    short = name.rpartition(".")[2]
    if short in ANY_MODEL and not name.startswith("peft."):
        return True
    if ADAPTED.match(name):
        return None if kind == "unknown" else kind == "adapted"
    if name.startswith("peft."):
        return False if short.startswith("Peft") and "Model" in short else None
    if not name.startswith("transformers."):
        return None
    if kind != "whole":
        return False if kind == "adapted" else None
    if short in UNADAPTED:
        return True
    return _is_architecture(porting, short)


def _is_architecture(porting: Porting, short: str) -> bool | str | None:
    """The same of a class of transformers, for a model without adapters."""
    if short.startswith(("AutoModel", "TF", "Flax")):
        return False  # factories, and models of other frameworks
    if porting.model is not None and short in porting.model.qualified.split("."):
        return True
    family = find_family(short)
    if family is None:
        return False if re.search(r"(?:Model|LMHead|For[A-Z]\w+)$", short) else None
    if porting.family is not None and porting.family.name != family.name:
        return False
    if len(family.architectures) > 1:
        return None  # the checkpoint may be the multimodal one, whose class is another
    return True if porting.family is not None else family.model_types[0]

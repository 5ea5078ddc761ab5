"""What a script does with the model that merge_and_unload gives, but for saving it.

merged = trainer.model.merge_and_unload().to(torch.float16)
merged.eval()
merged.cpu().save_pretrained("merged")

The type that it is given is the one that it is saved in; where it lies, and how it is switched, changes nothing of
that. What the port's merged model hasn't is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import (
    MODEL_CASTS,
    MODEL_IDLE,
    Module,
    constants,
    parameter_of,
    role_uses,
    shortened,
    uses_behind,
)

from .._kinds_of_models import kinds_of

PART_OF = "TP216"

MERGE = "merge_and_unload"
HAS = frozenset({"save_pretrained", "push_to_hub", "config", "generation_config", "dtype", *MODEL_CASTS})
NOT_SAVED = frozenset({"push_to_hub", "state_dict", "variant", "save_function"})  # keywords of save_pretrained
SAVES = {"save_pretrained": "save_model", "push_to_hub": "push_to_hub"}  # and the runtime's, which do it for any model
UNLIKE = frozenset({"safe_serialization", "max_shard_size"})  # keywords that say how transformers writes files
OF_CONFIG = frozenset({"use_cache", "pretraining_tp"})
READERS = frozenset("print len type isinstance id repr str hasattr getattr".split())
DEVICE = re.compile(r"device|cuda|cpu", re.IGNORECASE)
TYPE = re.compile(r"d_?type", re.IGNORECASE)
REASON = "a merged model is saved from where it lies"
FIX = "Load the saved folder in torch for this, or do it by hand."


@step(Phase.ANSWER, of="trainer", reads=("reloaded models",))
def settle_merged(porting: Porting) -> None:
    """Types that a merged model is given are JAX's; what only moves or switches it goes."""
    for node in _uses(porting):
        call = _method(porting, node)
        if call is not None and (shown := _shown_type(porting, call)) is not None:
            new = f"{porting.module.code(node)}.dtype"
            porting.edit(*porting.module.span(shown), new, PART_OF, "the type that it is saved in")
            continue
        if call is not None and _may_be_unmerged(porting, node):
            _save_either(porting, node, call)
            continue
        if call is None or (_is_gone(porting, node) and not isinstance(node, cst.Call)):
            _settle_config(porting, node)
            continue
        assert isinstance(call.func, cst.Attribute)
        name = call.func.attr.value
        if name in MODEL_IDLE or (name == "to" and call.args and all(_is_device(porting, each) for each in call.args)):
            _drop(porting, node, call)
        elif name == "to":
            _say_types(porting, call)


@step(Phase.NAME, of="trainer", reads=("checkpoints", "checkpoint paths"))
def name_merged(porting: Porting) -> None:
    """An error for what is done with a merged model that the port's hasn't."""
    module = porting.module
    for node in _uses(porting, shared=True):
        attribute = module.parents[node]
        if _is_gone(porting, node):
            continue
        if isinstance(attribute, cst.Attribute):
            if not _is_gone(porting, attribute):
                _name_member(porting, node, attribute)
        else:
            _name_handed(porting, node)


def _uses(porting: Porting, *, shared: bool = False) -> Iterator[cst.BaseExpression]:
    """The places of every model that the trained one's `merge_and_unload()` gives, see `uses_behind`."""
    module = porting.module
    if f"{MERGE}(" not in module.text:
        return
    for use in role_uses(porting):
        if isinstance(use.outer, cst.Call) and use.match in (f"@model.{MERGE}()", f"@trainer.model.{MERGE}()"):
            values: list[cst.Call | cst.IfExp | cst.BooleanOperation] = [use.outer]
            for value in values:  # grows as it is read
                found = [*uses_behind(module, value, shared=shared)]
                values += [either for each in (value, *found) if (either := _either(module, each)) is not None]
                yield from found


def _either(module: Module, value: cst.BaseExpression) -> cst.IfExp | cst.BooleanOperation | None:
    """What may be a value or another: `model.merge_and_unload() if adapted else model`, `merged or model`."""
    around = module.parents[value]
    if isinstance(around, cst.IfExp) and around.test is not value:
        return around
    return around if isinstance(around, cst.BooleanOperation) else None


def _may_be_unmerged(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether a variable beside the model's own holds a merged model where it had adapters, and the model else."""
    named = isinstance(node, cst.Name) and node.value != porting.names.model
    return named and kinds_of(porting, node) > {"merged"}


def _save_either(porting: Porting, node: cst.BaseExpression, call: cst.Call) -> None:
    """`final.save_pretrained("out")` → `rt.save_model(final, "out")`, which saves both; so for push_to_hub."""
    module, name = porting.module, porting.module.code(node)
    method = module.code(call.func).rpartition(".")[2]
    if method not in SAVES or porting.covered(module.span(call)[0]):
        return
    given = [arg.keyword.value if arg.keyword is not None else arg.star for arg in call.args]
    if given[:1] != [""] or not UNLIKE.issuperset(given[1:]):
        message = f"{name} may be merged or as it was trained here; the port's call can't tell which."
        fix = f"rt.{SAVES[method]}({name}, ...) does that for either."
        porting.find(PART_OF, "error", message, fix, *module.location(call))
        return
    (begin, end), first = module.span(call), module.span(call.args[0])
    porting.edit(begin, first[0], f"{porting.rt(SAVES[method])}({name}, ", PART_OF, "merged, or as it is")
    if len(given) > 1:
        porting.edit(first[1], end, ")", PART_OF, "merged, or as it is")


def _is_gone(porting: Porting, node: cst.BaseExpression) -> bool:
    """Whether an edit replaces the end of an expression: where it is a call, the start of it always goes."""
    return porting.covered(porting.module.span(node)[1] - 1)


def _method(porting: Porting, node: cst.BaseExpression) -> cst.Call | None:
    """The call of a method of the object that stands at `node`."""
    attribute = porting.module.parents[node]
    call = porting.module.parents.get(attribute)
    return call if isinstance(call, cst.Call) and call.func is attribute else None


def _shown_type(porting: Porting, call: cst.Call) -> cst.Attribute | None:
    """`next(merged.parameters()).dtype` in a line of output."""
    module = porting.module
    first = module.parents[module.parents[call]]
    asked, held = module.parents.get(first), module.code(call.func).rpartition(".")[2]
    if held != "parameters" or not isinstance(first, cst.Call) or module.code(first.func) != "next":
        return None
    if not isinstance(asked, cst.Attribute) or asked.attr.value != "dtype":
        return None
    around = module.parents[asked]
    printed = module.parents.get(around)
    is_printed = isinstance(around, cst.Arg) and isinstance(printed, cst.Call) and module.code(printed.func) == "print"
    return asked if is_printed or isinstance(around, cst.FormattedStringExpression) else None


def _is_device(porting: Porting, argument: cst.Arg) -> bool:
    """Whether an argument of `.to()` says where tensors lie."""
    code = porting.module.code(argument.value)
    return DEVICE.search(code) is not None and TYPE.search(code) is None and not argument.star


def _drop(porting: Porting, node: cst.BaseExpression, call: cst.Call) -> None:
    """`merged.eval()` goes, `merged.cpu().save_pretrained(...)` loses the `.cpu()`."""
    module = porting.module
    line = module.parents[call]
    same = isinstance(line, cst.Assign) and len(line.targets) == 1 and line.targets[0].target.deep_equals(node)
    if isinstance(node, cst.Name) and (isinstance(line, cst.Expr) or same):
        porting.remove_statement(call, PART_OF, REASON)
    else:
        porting.edit(module.span(node)[1], module.span(call)[1], "", PART_OF, REASON)


def _say_types(porting: Porting, call: cst.Call) -> None:
    module = porting.module
    for argument in call.args:
        if kind := constants(module).get(module.qualified(argument.value) or ""):
            porting.edit(*module.span(argument.value), f"jnp.{kind}", PART_OF, "saved in this type")
            porting.imports.add("import jax.numpy as jnp")


def _settle_config(porting: Porting, node: cst.BaseExpression) -> None:
    """`merged.config.use_cache = True` goes: it says how torch's model samples."""
    module = porting.module
    config = module.parents[node]
    setting = module.parents.get(config)
    if not isinstance(config, cst.Attribute) or config.attr.value != "config" or not isinstance(setting, cst.Attribute):
        return
    line = module.parents.get(module.parents[setting])
    if setting.attr.value in OF_CONFIG and isinstance(line, cst.Assign) and len(line.targets) == 1:
        porting.remove_statement(setting, PART_OF, "says how torch's model samples")


def _name_member(porting: Porting, node: cst.BaseExpression, attribute: cst.Attribute) -> None:
    module = porting.module
    call, name = _method(porting, node), attribute.attr.value
    code = shortened(module.code(call if call is not None else attribute))
    if name not in HAS:
        message = f"{code}: the port's merged model is there to be saved and to generate, and hasn't this."
        porting.find(PART_OF, "error", message, FIX, *module.location(node))
        return
    given = [a.keyword.value for a in call.args if a.keyword is not None] if call is not None else []
    lost = [each for each in given if each in NOT_SAVED] if name == "save_pretrained" else []
    if lost and call is not None:
        message = f"{code}: {', '.join(lost)} of save_pretrained isn't done by the port's merged model."
        porting.find(
            PART_OF, "error", message, "rt's merged model has push_to_hub; else by hand.", *module.location(node)
        )
    setting = module.parents[attribute]
    target = module.parents.get(setting)
    if name == "config" and isinstance(setting, cst.Attribute) and isinstance(target, cst.AssignTarget):
        if not setting.attr.value.endswith("_token_id"):
            message = f"{module.code(setting)}: of a merged model's config the port sets special tokens alone."
            porting.find(PART_OF, "error", message, "Set it in config.json behind the port.", *module.location(node))


def _name_handed(porting: Porting, node: cst.BaseExpression) -> None:
    """An error for a library's call that gets a merged model."""
    module = porting.module
    argument = module.parents[node]
    call = module.parents.get(argument)
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
        return
    if module.code(call.func) in READERS or parameter_of(module, argument, call) is not None:
        return
    if porting.covered(module.span(call.func)[0]):
        return
    message = f"{shortened(module.code(call))}: this gets the port's merged model, not a torch model."
    porting.find(PART_OF, "error", message, FIX, *module.location(call))

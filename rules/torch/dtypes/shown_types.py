"""Types that a script turns into text: JAX's stand under torch's names.

    torch_dtype = torch.bfloat16
    json.dump({"model": NAME, "dtype": str(torch_dtype)}, file)

The variable is `jnp.bfloat16` in the port, whose text is "<class 'jax.numpy.bfloat16'>".
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, origins

from .handed_types import MAX_DEPTH, types_of, values_of

PART_OF = "TP520"
REASON = "the text that torch gives"
ALONE = cst.Arg | cst.Assign | cst.DictElement | cst.Element | cst.FormattedStringExpression
TEXTS = frozenset({"str", "repr"})
SHOWS = frozenset("print info debug warning log error critical write format".split())
RECORDS = frozenset("init update log_param log_params log_hyperparams summary".split())  # what trackers are given


@step(Phase.NAME)
def write_shown_types(porting: Porting) -> None:
    """Write the text where a variable that holds JAX's types is turned into one."""
    module = porting.module
    if "torch." not in module.text:
        return
    for whole, shown in _shown(module):
        if not isinstance(shown, cst.Name | cst.Attribute) or porting.covered(module.span(whole)[0]):
            continue
        if not _is_jax(porting, shown):
            continue
        around = next((item for item in module.ancestors(whole) if isinstance(item, cst.FormattedString)), None)
        quote = "'" if around is not None and '"' in around.start else '"'
        text = f"{quote}torch.{quote} + jnp.dtype({module.code(shown)}).name"
        if isinstance(whole, cst.FormattedStringExpression):
            text = f"{{{text}}}"
        elif not isinstance(module.parents[whole], ALONE):
            text = f"({text})"
        porting.edit(*module.span(whole), text, PART_OF, REASON)
        porting.imports.add("import jax.numpy as jnp")


def _is_jax(porting: Porting, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether all that a variable may hold is a type that the port writes as JAX's."""
    values = values_of(porting.module, node) or [node]
    return depth < MAX_DEPTH and all(
        leaf is not None
        and (
            porting.covered(porting.module.span(leaf)[0])
            or (isinstance(leaf, cst.Name) and leaf is not node and _is_jax(porting, leaf, depth + 1))
        )
        for value in values
        for leaf in types_of(porting, value)
    )


def _shown(module: Module) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """What is turned into text, and the code whose place the text takes."""
    for node in [node for node in module.parents if isinstance(node, cst.FormattedStringExpression)]:
        if node.format_spec is None and node.equal is None:
            yield node, node.expression
    for call in module.calls:
        name = module.code(call.func).rsplit(".", 1)[-1]
        if isinstance(call.func, cst.Name) and name in TEXTS and len(call.args) == 1:
            yield call, call.args[0].value
        elif name in SHOWS:
            yield from ((arg.value, arg.value) for arg in call.args if not arg.star)
        elif name in RECORDS and not _is_of_a_dictionary(module, call):
            yield from ((value, value) for arg in call.args for value in _recorded(module, arg.value))


def _is_of_a_dictionary(module: Module, call: cst.Call) -> bool:
    """`kwargs.update({"torch_dtype": torch_dtype})`: what a dictionary of the script holds stays a type."""
    held = call.func.value if isinstance(call.func, cst.Attribute) else None
    made = [*origins(module, held)][-1:]
    return any(isinstance(each, cst.Dict) or _is_dict_call(module, each) for each in made)


def _is_dict_call(module: Module, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and module.code(node.func) == "dict"


def _recorded(module: Module, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values of a dictionary that is written out."""
    if isinstance(node, cst.Dict):
        yield from (each.value for each in node.elements if isinstance(each, cst.DictElement))
    elif isinstance(node, cst.Call) and _is_dict_call(module, node):
        yield from (arg.value for arg in node.args if arg.keyword is not None)

"""Loops over a torch model's parameters that only count them, by what is trained or by type.

for _, param in model.named_parameters():
    all_param += param.numel()
    if param.requires_grad:
        trainable_params += param.numel()
"""

from __future__ import annotations

import ast
import re
import textwrap

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import Module, Use, small_statement

PART_OF = "TP210"
SIZES = ("numel", "nelement")
TYPE, SIZE = "dtype", "size"
FOUR_BITS = ("nf4", "fp4")
SEES = re.compile(r"gemma-(?:3-(?:4|12|27)b|4-)", re.IGNORECASE)
OF_TEXT = re.compile(r"\bGemma\w*ForCausalLM")


def say_packed(porting: Porting, counted: cst.CSTNode) -> None:
    """Tell of a count of all parameters by their sizes that bitsandbytes packs a base of 4 bits, two to an element."""
    held = porting.value("model.quantization")
    if held is None or (held.known and held.literal not in FOUR_BITS):
        return
    if not held.known and "load_in_8bit" in held.code and "4bit" not in held.code:
        return
    when = "" if held.known else " where it quantises the base to 4 bits"
    message = (
        f"The GPU run counts half of the quantised weights here{when}, as bitsandbytes packs two into each element "
        "(more with a wider bnb_4bit_quant_storage); the port counts every weight."
    )
    porting.find(PART_OF, "info", message, "", *porting.module.location(counted))


def say_text_alone(porting: Porting, counted: cst.CSTNode) -> None:
    """Tell of a count of all parameters of a model that sees, too, where the class that loads it has its tower."""
    site = porting.model
    if site is None or OF_TEXT.search(site.qualified) is not None:
        return
    sees = SEES.search(porting.module.text) if porting.sizes is None else porting.sizes.get("multimodal")
    if not sees:
        return
    which = "this model" if porting.sizes is not None else "a model that sees, too,"
    message = (
        f"Of {which} the GPU run counts all here, with the tower that sees; the port's model is the text's, and its "
        "number smaller (Gemma 3 4B: 3.88 billion, not 4.30)."
    )
    porting.find(PART_OF, "info", message, "", *porting.module.location(counted))


def replace_loop(porting: Porting, use: Use) -> bool:
    """Sums become `rt.count_parameters(model)`; a loop that asks for types walks over Tunix's parameters. False for
    any other loop."""
    loop = porting.module.parents[use.outer]
    if not isinstance(loop, cst.For) or loop.iter is not use.outer or loop.orelse is not None:
        return False
    return _sum(porting, loop, use) or _walk_types(porting, loop, use)


def _sum(porting: Porting, loop: cst.For, use: Use) -> bool:
    module = porting.module
    tree = ast.parse(textwrap.dedent(module.code(loop).expandtabs(4)).strip()).body[0]
    target = _parameter(tree)
    if not isinstance(tree, ast.For) or target is None:
        return False
    sizes: dict[str, str] = {}
    lines = _lines(tree.body, target, sizes, porting.rt("count_parameters"), module.code(use.name))
    scope = module.scope(loop)
    read = [node for name in sizes if name.isidentifier() for node in module.references(name, scope)]
    if not lines or not all(_stands_in(module, node, loop.body) for node in read):
        return False
    start, end = module.span(loop)
    indent = " " * (module.line_column(start)[1] - 1)
    if "\t" in module.text[start - len(indent) : start]:
        indent = module.text[start - len(indent) : start]
    porting.edit(start, end, f"\n{indent}".join(lines), PART_OF, "the same count over Tunix's parameters")
    if not all("trainable=True" in line for line in lines):
        say_packed(porting, loop)
    return True


def _parameter(loop: ast.stmt) -> str | None:
    """The name of the parameter in `for p in ...` and `for _, p in ...`."""
    target = loop.target if isinstance(loop, ast.For) else None
    if isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    return target.id if isinstance(target, ast.Name) else None


def _lines(body: list[ast.stmt], parameter: str, sizes: dict[str, str], count: str, model: str) -> list[str]:
    """What the statements of a loop add up, as statements without it; none where one does anything else."""
    found: list[str] = []
    for statement in body:
        code = ast.unparse(statement)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
            if not _is_size(statement.value, parameter, sizes):
                return []
            found.append(f"{ast.unparse(statement.target)} += {count}({model})")
        elif isinstance(statement, ast.Assign) and _is_size(statement.value, parameter, sizes):
            sizes[ast.unparse(statement.targets[0])] = parameter
        elif isinstance(statement, ast.If) and not statement.orelse:
            test = ast.unparse(statement.test)
            if test == f"{parameter}.requires_grad":
                inner = _lines(statement.body, parameter, sizes, count, model)
                if not inner:
                    return []
                found += [f"{line[:-1]}, trainable=True)" for line in inner]
            elif "ds_numel" not in test or not all(f"= {parameter}.ds_numel" in ast.unparse(s) for s in statement.body):
                return []  # DeepSpeed's own size of a parameter that lies elsewhere
        elif code != "pass":
            return []
    return found


def _is_size(value: ast.expr, parameter: str, sizes: dict[str, str]) -> bool:
    code = ast.unparse(value)
    return code in sizes or code in [f"{parameter}.{name}()" for name in SIZES]


def _walk_types(porting: Porting, loop: cst.For, use: Use) -> bool:
    """`for _, p in model.named_parameters():` that reads `p.dtype` and `p.numel()` and no more of p."""
    module = porting.module
    target = loop.target.elements[-1].value if isinstance(loop.target, cst.Tuple) else loop.target
    if not isinstance(target, cst.Name) or small_statement(module, loop)[0] is not None:
        return False
    scope = module.scope(loop)
    within = [node for node in module.references(target.value, scope) if _stands_in(module, node, loop.body)]
    sizes: list[cst.Call] = []
    for node in within:
        around = module.parents[node]
        if not isinstance(around, cst.Attribute) or around.value is not node:
            return False
        call = module.parents[around]
        if around.attr.value in SIZES and isinstance(call, cst.Call) and not call.args:
            sizes.append(call)
        elif around.attr.value != TYPE:
            return False
    names = [each.value for each in loop.target.elements[:-1]] if isinstance(loop.target, cst.Tuple) else []
    named = [each for each in names if isinstance(each, cst.Name) and _is_read(module, each, loop)]
    if not within or len(sizes) == len(within) or named:
        return False
    reason = "the types and sizes of Tunix's parameters"
    porting.edit(*module.span(loop.target), target.value, PART_OF, reason)
    walked = f"jax.tree.leaves(nnx.state({module.code(use.name)}, nnx.Param))"
    porting.edit(*module.span(loop.iter), walked, PART_OF, reason)
    for call in sizes:
        porting.edit(*module.span(call), f"{target.value}.{SIZE}", PART_OF, reason)
    porting.imports.update(("import jax", "from flax import nnx"))
    return True


def _stands_in(module: Module, node: cst.CSTNode, block: cst.CSTNode) -> bool:
    return any(above is block for above in module.ancestors(node))


def _is_read(module: Module, name: cst.Name, loop: cst.For) -> bool:
    return any(_stands_in(module, node, loop.body) for node in module.references(name.value, module.scope(loop)))

"""The type that a model is cast to before anything else is made of it: `from_pretrained(name).half().cuda()`."""

from __future__ import annotations

import re

import libcst as cst

from ....recipe import Origin, Value
from ....source.module import Module
from ....source.read_value import read_value
from ..sites import Site
from ..training import Training
from .uses_behind import MODEL_CASTS, uses_behind

TYPES = ("bfloat16", "float16", "float32")
BY_METHOD = {"half": "float16", "bfloat16": "bfloat16", "float": "float32"}
CASTS = re.compile(rf"\.[\s\\]*(?:{'|'.join(sorted(MODEL_CASTS))})\b")  # where none stands, no use is looked at
HOLDERS = (
    cst.If,
    cst.Else,
    cst.IfExp,
    cst.BooleanOperation,
    cst.For,
    cst.While,
    cst.Try,
    cst.ExceptHandler,
    cst.Match,
    cst.FunctionDef,
    cst.ClassDef,
    cst.Lambda,
)


def cast_at_load(porting: Training) -> Value | None:
    """The type that the model has where its adapters or its trainer get it: of the last cast that runs whenever the
    model is loaded. None where there is none, or one of whose type or turn only the run knows."""
    module, site, found = porting.module, porting.model, None
    if site is None or not isinstance(site.node, cst.Call) or CASTS.search(module.text) is None:
        return None
    for place in uses_behind(module, site.node):
        call = cast_by(module, place)
        if call is None or any(_is_behind(module, call, other) for other in _takers(porting)):
            continue
        to = type_asked(module, call)
        if to is None:
            continue
        if to not in TYPES or _holders(module, call) != _holders(module, site.node):
            return None
        line, column = module.location(call)
        found = Value("literal", repr(to), Origin(module.path, line, column))
    return found


def cast_by(module: Module, place: cst.BaseExpression) -> cst.Call | None:
    """The call of `place.half()` or `place.to(...)`."""
    method = module.parents[place]
    call = module.parents.get(method)
    is_cast = isinstance(method, cst.Attribute) and method.value is place and method.attr.value in MODEL_CASTS
    return call if is_cast and isinstance(call, cst.Call) and call.func is method else None


def type_asked(module: Module, call: cst.Call) -> str | None:
    """The type that `.half()` or `.to(...)` asks for, or the code that says it; None where it only moves a model."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if method in BY_METHOD:
        return BY_METHOD[method]
    for argument in call.args if method == "to" else ():
        code, value = module.code(argument.value), read_value(module, argument.value)
        if value.known and value.literal in TYPES:
            return str(value.literal)
        named = argument.keyword is not None and argument.keyword.value == "dtype"
        if not value.known and (named or code.rpartition(".")[2].endswith("dtype")):
            return code
    return None


def _takers(porting: Training) -> list[Site]:
    sites = [*porting.of_role("inject"), porting.inject, porting.trainer]
    return [site for site in sites if site is not None]


def _is_behind(module: Module, call: cst.Call, site: Site) -> bool:
    return module.scope(call) is module.scope(site.node) and module.span(call)[1] > site.end


def _holders(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    """What decides whether and how often a node runs."""
    return [each for each in module.ancestors(node) if isinstance(each, HOLDERS)]

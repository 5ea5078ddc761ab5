"""Conditions that compare an installed release: answered as the release that the script is read as.

kind = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
if Version(trl.__version__) >= Version("0.12"):
    kwargs["processing_class"] = tokenizer

The TPU machine has other releases of what a port uses. What runs there with these is decided there: of them a test is
answered that chooses nothing but settings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import libcst as cst

from ....releases.history import LIBRARIES
from ....releases.versions import key
from ....source.module import Module
from ....source.scopes import inside
from ....source.values import COMPARISON, Unknown, evaluate
from ...script.fill_from_tables import plain_version
from ...script.sites import is_of_gpu_library
from ...settling.decisions import condition

READS = re.compile(r"__version__|\bversion\(")
PARSES = (
    "packaging.version.parse",
    "packaging.version.Version",
    "distutils.version.LooseVersion",
    "looseversion.LooseVersion",
)
METADATA = ("importlib.metadata.version", "importlib_metadata.version")
SETS = ("update", "setdefault", "pop", "append")
PLAIN = ("dict", "list", "str", "int", "float", "bool", "len")
SAYS = re.compile(r"print|(?:\w+\.)*(?:info|debug|warning)")
SETTINGS = ("Config", "Arguments", "Trainer")
MAX_DEPTH = 12
MAX_NAMES = 3


@dataclass(frozen=True)
class _Release:
    """A release as text, or parsed; `whole` where it is known to its last number."""

    text: str
    library: str = ""  # of an installed one

    def beside(self, other: _Release) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Both as numbers; Unknown where what isn't known of one decides."""
        one, two = key(self.text), key(other.text)
        for each, against in ((self, other), (other, self)):
            shorter = each.library and each.text.count(".") < against.text.count(".")
            if shorter and f"{against.text}.".startswith(f"{each.text}."):
                raise Unknown  # 4.42, of the day, against 4.42.3
        if one == two and any(re.search(r"[a-z+]", each.text.lstrip("v")) for each in (self, other)):
            raise Unknown  # 5.0.0.dev0 against 5.0.0
        return one, two


def version_tests(
    module: Module, versions: Mapping[str, str], gone: Collection[str]
) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Every comparison of an installed release with one that is written down, and what it is; `gone`: libraries that no
    line of a port asks."""
    if READS.search(module.text) is None:
        return
    for node in module.parents:
        if not isinstance(node, cst.Comparison | cst.Call):
            continue
        reader = _Reader(module, versions)
        try:
            answer = _answer(reader, node)
        except (Unknown, TypeError):
            continue
        if answer is not None and reader.asked:
            if reader.asked <= {*gone} or _chooses_settings(module, node):
                yield node, answer
                yield from ((use, answer) for use in _conditions(module, node))


def _conditions(module: Module, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Where the one name that holds a comparison alone is asked: `if is_new:`."""
    holder = module.parents[node]
    target = holder.targets[0].target if isinstance(holder, cst.Assign) and len(holder.targets) == 1 else None
    if not isinstance(target, cst.Name) or module.single_binding(target) is None:
        return
    for use in module.references(target.value, module.scope(target)):
        test = condition(module, use)
        if isinstance(above := module.parents[test], cst.If | cst.IfExp) and above.test is test:
            yield use


def _answer(reader: _Reader, node: cst.Comparison | cst.Call) -> bool | None:
    if isinstance(node, cst.Call):
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "startswith" or len(node.args) != 1:
            return None
        text, begin = reader.value(node.func.value), reader.value(node.args[0].value)
        if not isinstance(text, str) or not isinstance(begin, str | tuple):
            return None
        return text.startswith(begin)
    compare = COMPARISON.get(type(node.comparisons[0].operator)) if len(node.comparisons) == 1 else None
    if compare is None:
        return None
    one, other = reader.value(node.left), reader.value(node.comparisons[0].comparator)
    if isinstance(one, _Release) and isinstance(other, _Release):
        one, other = one.beside(other)
    elif isinstance(one, str) and isinstance(other, str):  # as texts, as Python does
        _Release(one, one.library if isinstance(one, _Text) else "").beside(_Release(other))
    return bool(compare(one, other))


class _Reader:
    """What the parts of a comparison are; `asked`: the libraries whose releases are in them."""

    def __init__(self, module: Module, versions: Mapping[str, str]) -> None:
        self.module, self.versions = module, versions
        self.asked: set[str] = set()

    def value(self, node: cst.BaseExpression, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise Unknown
        module = self.module
        if (library := self._installed(node)) is not None:
            self.asked.add(library)
            return _Text(plain_version(self.versions[library]), library)
        if isinstance(node, cst.Name) and (binding := module.single_binding(node)) is not None:
            if binding.kind == "assign" and isinstance(binding.value, cst.BaseExpression):
                return self.value(binding.value, depth + 1)
        if isinstance(node, cst.Attribute) and node.attr.value in ("major", "minor", "release"):
            made = self.value(node.value, depth + 1)
            if not isinstance(made, _Release):
                raise Unknown
            numbers = _numbers(made.text, 2 if node.attr.value != "release" else 3)
            return numbers if node.attr.value == "release" else numbers[node.attr.value == "minor"]
        if isinstance(node, cst.Subscript) and len(node.slice) == 1:
            return self._part(node, self.value(node.value, depth + 1))
        if isinstance(node, cst.Call):
            return self._called(node, depth + 1)
        if isinstance(node, cst.Tuple | cst.List) and not any(isinstance(x, cst.StarredElement) for x in node.elements):
            parts = [self.value(each.value, depth + 1) for each in node.elements]
            return tuple(parts) if isinstance(node, cst.Tuple) else parts
        if isinstance(node, cst.GeneratorExp | cst.ListComp):
            return self._each_number(node, depth + 1)
        return evaluate(module, node)

    def _installed(self, node: cst.BaseExpression) -> str | None:
        """The library whose installed release an expression is."""
        module = self.module
        name = ""
        if isinstance(node, cst.Call) and module.qualified(node.func) in METADATA and len(node.args) == 1:
            try:
                name = str(evaluate(module, node.args[0].value))
            except Unknown:
                return None
        elif isinstance(node, cst.Name | cst.Attribute):
            library, _, rest = (module.qualified(node) or "").partition(".")
            name = library if rest == "__version__" else ""
        return name if name in LIBRARIES and name in self.versions else None

    def _called(self, call: cst.Call, depth: int) -> Any:
        module, function = self.module, call.func
        given = [each.value for each in call.args]
        if module.qualified(function) in PARSES and len(given) == 1:
            text = self.value(given[0], depth)
            if not isinstance(text, str):
                raise Unknown
            return _Release(str(text), text.library if isinstance(text, _Text) else "")
        if isinstance(function, cst.Attribute) and function.attr.value == "split":
            text = self.value(function.value, depth)
            if not isinstance(text, str) or not given or any(each.star for each in call.args):
                raise Unknown
            most = evaluate(module, given[1]) if len(given) > 1 else -1
            return [*text.split(evaluate(module, given[0]), most)]
        name = module.code(function)
        if name in ("int", "tuple", "list") and len(given) == 1:
            inner = self.value(given[0], depth)
            try:
                return {"int": int, "tuple": tuple, "list": list}[name](inner)
            except (TypeError, ValueError):
                raise Unknown from None
        if name == "map" and len(given) == 2 and module.code(given[0]) == "int":
            return _as_numbers(self.value(given[1], depth))
        return evaluate(module, call)

    def _each_number(self, node: cst.GeneratorExp | cst.ListComp, depth: int) -> list[int]:
        """`int(x) for x in version.split(".")[:2]`"""
        loop, code = node.for_in, self.module.code
        if loop.ifs or loop.inner_for_in is not None or code(node.elt) != f"int({code(loop.target)})":
            raise Unknown
        return _as_numbers(self.value(loop.iter, depth))

    def _part(self, node: cst.Subscript, whole: Any) -> Any:
        part = node.slice[0].slice
        if not isinstance(whole, list | tuple):
            raise Unknown
        try:
            if isinstance(part, cst.Index):
                return whole[evaluate(self.module, part.value)]
            if isinstance(part, cst.Slice) and part.lower is None and part.step is None and part.upper is not None:
                end = evaluate(self.module, part.upper)
                if len(whole) < end:
                    raise Unknown
                return whole[:end]
        except (IndexError, TypeError):
            pass
        raise Unknown


class _Text(str):
    """The text of an installed release."""

    library: str

    def __new__(cls, text: str, library: str) -> _Text:
        made = super().__new__(cls, text)
        made.library = library
        return made


def _as_numbers(parts: Any) -> list[int]:
    try:
        return [int(part) for part in parts]
    except (TypeError, ValueError):
        raise Unknown from None


def _numbers(text: str, least: int) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in re.findall(r"\d+", re.split(r"[a-z+]", text.lstrip("v"), maxsplit=1)[0]))
    if len(numbers) < least:
        raise Unknown
    return numbers


def _chooses_settings(module: Module, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether nothing but settings hangs on a condition: no code that an installed library runs."""
    test = condition(module, node)
    holder = module.parents[test]
    if isinstance(holder, cst.If) and holder.test is test:
        return all(_sets(module, line) for line in _lines(holder))
    if isinstance(holder, cst.IfExp) and holder.test is test:
        return _is_plain(module, holder.body) and _is_plain(module, holder.orelse)
    if isinstance(holder, cst.Assign) and len(holder.targets) == 1 and depth < MAX_NAMES:
        target = holder.targets[0].target
        if not isinstance(target, cst.Name) or module.single_binding(target) is None:
            return False
        uses = module.references(target.value, module.scope(target))
        return all(_chooses_settings(module, use, depth + 1) for use in uses)
    return False


def _lines(branch: cst.If) -> Iterator[cst.BaseStatement | cst.BaseSmallStatement]:
    """The statements of an `if` and of what follows it."""
    block: cst.If | cst.Else | None = branch
    while block is not None:
        for line in block.body.body:
            yield from line.body if isinstance(line, cst.SimpleStatementLine) else [line]
        block = block.orelse if isinstance(block, cst.If) else None


def _sets(module: Module, line: cst.CSTNode) -> bool:
    """Whether a statement sets a value, or says something."""
    if isinstance(line, cst.Pass):
        return True
    if isinstance(line, cst.Assign | cst.AnnAssign | cst.AugAssign):
        return line.value is None or _is_plain(module, line.value)
    if not isinstance(line, cst.Expr) or not isinstance(line.value, cst.Call):
        return False
    call = line.value
    called = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    fills = called in SETS and isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name)
    if not fills and SAYS.fullmatch(module.code(call.func)) is None:
        return False
    return all(_is_plain(module, each.value) for each in call.args)


def _is_plain(module: Module, value: cst.BaseExpression) -> bool:
    """Whether a value asks no library of the port for anything, or is an object of settings."""
    for node in inside(value):
        if isinstance(node, cst.Call):
            name = module.qualified(node.func) or module.code(node.func)
            root = name.partition(".")[0]
            if (
                not is_of_gpu_library(module, node.func)
                and name not in PLAIN
                and not (root in LIBRARIES and name.endswith(SETTINGS))
            ):
                return False
    return True

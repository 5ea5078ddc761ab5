"""What a script uses of the source libraries: imports, keywords of calls, attributes of argument objects and trainers.

A use under a test of a version, a signature or an attribute, or in a `try` that falls back to something else, is
guarded: the script is written for several releases there. Any other condition, `if __name__ == "__main__"` among
them, guards nothing. What a class gets in the branch that asks whether a `try` has imported it is guarded, too, and
`if_there`: a release that has the class has to take it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .spread import GUARDED, IF_THERE, Dictionaries
from .syntax import called_in, entries_of, syntax_tree
from .unsloth_uses import before_unsloth, taken_by_unsloth

_GUARDING = re.compile(
    r"__version__|\bversion(?:_info)?\b|\bVersion\b|\bsignature\b|\bhasattr\b|\bfind_spec\b|getfullargspec"
    r"|__dataclass_fields__|__annotations__|\b(?:dataclasses\.)?fields\(|__code__|\bis_\w+_(?:available|version|greater)\w*"
)
_NARROW = ("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError")
_PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")
PARTIAL, REPLACE = ("partial", "functools.partial"), ("replace", "dataclasses.replace")
_OBJECTS = re.compile(r"Trainer$|Arguments$|Config$")


@dataclass(frozen=True)
class Use:
    """A dotted name of a library, imported or called with keywords, or read from; `Class.method` for a method."""

    name: str
    keywords: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    line: int = 0
    guarded: bool = False
    imported: bool = False
    if_there: bool = False

    @property
    def last(self) -> str:
        """`SFTConfig` of `trl.SFTConfig`, `Trainer.train` of `transformers.Trainer.train`."""
        parts = self.name.split(".")
        return ".".join(parts[-2:]) if len(parts) > 2 and parts[-2][:1].isupper() else parts[-1]


@dataclass
class _Class:
    """A class of the script: what it extends, the fields that it adds, whether it has a constructor of its own."""

    base: str
    own: set[str] = field(default_factory=set)
    constructs: bool = False


class _Reader(Dictionaries):
    def __init__(self, roots: tuple[str, ...]) -> None:
        super().__init__()
        self.roots = roots
        self.names: dict[str, str] = {}  # what a name of the script stands for
        self.classes: dict[str, _Class] = {}
        self.types: dict[tuple[str, str], str | None] = {}  # by scope and name: the class of an object
        self.parsers: dict[str, list[str | None]] = {}
        self.tainted: set[str] = set()
        self.chosen: set[str] = set()  # names of a class where a `try` has imported it, else of another
        self.scopes = [""]
        self.guards = self.there = 0  # `there`: those that only ask whether a class has been imported
        self.uses: list[Use] = []
        self.guarded: set[int] = set()  # the lines of what is guarded

    # Names

    def qualified(self, node: ast.AST) -> str | None:
        """The dotted name that an expression stands for, of one of the libraries or of a class of the script."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            before = self.qualified(node.value)
            return f"{before}.{node.attr}" if before else None
        return None

    def library_name(self, name: str | None) -> str | None:
        """The library's class that a class of the script extends, or the name itself."""
        seen = set()
        while name in self.classes and name not in seen:
            seen.add(name)
            name = self.classes[name].base
        return name if name and name.partition(".")[0] in self.roots else None

    def kind(self, node: ast.AST) -> str | None:
        """The class of the object that a name holds."""
        if isinstance(node, ast.Name):
            for scope in reversed(self.scopes):
                if (scope, node.id) in self.types:
                    return self.types[scope, node.id]
        return None

    def own(self, name: str | None) -> set[str]:
        """Fields and methods that the script's classes add to a library's."""
        found: set[str] = set()
        seen = set()
        while name in self.classes and name not in seen:
            seen.add(name)
            found |= self.classes[name].own
            name = self.classes[name].base
        return found

    def add(self, name: str, line: int, **what: object) -> None:
        if name.partition(".")[0] in self.roots:
            how = self._how()
            self.uses.append(Use(name, line=line, guarded=how > 0, if_there=how == IF_THERE, **what))  # type: ignore[arg-type]

    def _how(self) -> int:
        return 0 if not self.guards else IF_THERE if self.guards == self.there else GUARDED

    @contextmanager
    def _within(self, how: int) -> Iterator[None]:
        """What is read within it is guarded, `IF_THERE` a class is, or neither (0)."""
        self.guards += how > 0
        self.there += how == IF_THERE
        yield
        self.guards -= how > 0
        self.there -= how == IF_THERE

    # Statements

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            if root in self.roots:
                self.names[alias.asname or root] = alias.name if alias.asname else root
                if "." in alias.name:
                    self.add(alias.name, node.lineno, imported=True)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or (node.module or "").partition(".")[0] not in self.roots:
            return
        for alias in node.names:
            if alias.name != "*":
                self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                self.add(f"{node.module}.{alias.name}", node.lineno, imported=True)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = [name for base in node.bases if (name := self.qualified(base))]
        annotated = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
        fields = {target.id for target in annotated if isinstance(target, ast.Name)}
        methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
        stored = {
            part.attr
            for part in ast.walk(node)
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self"
        }
        name = f":{node.name}:{node.lineno}"
        self.classes[name] = _Class(bases[0] if bases else "", fields | methods | stored, "__init__" in methods)
        for part in [*node.bases, *node.decorator_list]:
            self.visit(part)
        self.names[node.name] = name
        self.scopes.append(name)
        self.types[name, "self"] = name
        for one in node.body:
            self.visit(one)
        self.scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in [*node.decorator_list, *node.args.defaults]:
            self.visit(part)
        scope = f"{self.scopes[-1]}.{node.name}"
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for argument in arguments:
            if argument.arg != "self" or self.scopes[-1] not in self.classes:
                self.types[scope, argument.arg] = self.qualified(argument.annotation) if argument.annotation else None
        self.scopes.append(scope)
        self._visit_all(node.body)
        self.scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node: ast.If) -> None:
        self._guarded(node.test, node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._guarded(node.test, [node.body], [node.orelse])

    def _guarded(self, test: ast.expr, body: Iterable[ast.AST], orelse: Iterable[ast.AST]) -> None:
        self.visit(test)
        guards = self._guards(test)
        there = IF_THERE if self._asks_if_there(test) else GUARDED
        for parts, how in ((body, there if guards else 0), (orelse, GUARDED if guards else 0)):
            with self._within(how):
                for part in parts:
                    if guards:
                        self._renamed(part)
                        self._note_lines(part)
                    self.visit(part)

    def _note_lines(self, part: ast.AST) -> None:
        """Note the lines of a guarded statement, or of a dictionary that stands in an expression."""
        if isinstance(part, ast.stmt | ast.ExceptHandler | ast.Dict):
            self.guarded.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))

    def _asks_if_there(self, test: ast.expr) -> bool:
        """`SFTConfig is not None`, or `SFTConfig`: a class of a library's."""
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
            other = test.comparators[0]
            test = test.left if isinstance(other, ast.Constant) and other.value is None else test
        return isinstance(test, ast.Name) and self.library_name(self.qualified(test)) is not None

    def _guards(self, test: ast.expr) -> bool:
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        return bool(_GUARDING.search(ast.unparse(test)) or names & self.tainted)

    def visit_Try(self, node: ast.Try) -> None:
        guards = any(self._falls_back(handler, node) for handler in node.handlers)
        for one in [*node.body, *node.handlers, *node.orelse] if guards else ():
            self._note_lines(one)
        self.guards += guards
        for one in [*node.body, *node.handlers, *node.orelse]:
            self.visit(one)
        self.guards -= guards
        for one in node.finalbody:
            self.visit(one)

    def _falls_back(self, handler: ast.ExceptHandler, node: ast.Try) -> bool:
        """Whether a handler is there for other releases, not for a training that fails."""
        said = ast.unparse(handler.type) if handler.type else ""
        if any(isinstance(one, ast.Raise) for one in handler.body) and not any(
            isinstance(one, ast.If | ast.Import | ast.ImportFrom) for one in handler.body
        ):
            return False
        if any(re.search(rf"\b{name}\b", said) for name in _NARROW):
            return True
        again = called_in(node.body) & called_in(handler.body) - {"print"}
        imports = all(isinstance(one, ast.Import | ast.ImportFrom | ast.Assign | ast.Pass) for one in node.body)
        return said in ("", "Exception", "BaseException") and bool(again or imports)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._assign(target, node.value)
            if not isinstance(target, ast.Name):
                self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._assign(node.target, node.value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            word = target.slice.value if isinstance(target.slice, ast.Constant) else None
            known = self.spread.get(self._place(target.value))
            if known is not None and isinstance(word, str):
                known.append((word, target.lineno, self._how()))
            return
        if kept := self._place(target):
            if (more := self._adds_to(kept, value)) is not None:
                self._gets(target, more)
            else:
                self._holds(kept, value)
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Call):
            for place, one in enumerate(target.elts):
                made = self._parsed(value)
                if isinstance(one, ast.Name):
                    self.types[self.scopes[-1], one.id] = made[place] if place < len(made) else None
            return
        if not isinstance(target, ast.Name):
            return
        if isinstance(value, ast.IfExp) and self._asks_if_there(value.test):
            self.chosen.add(target.id)
            value = value.body  # Config = SFTConfig if SFTConfig is not None else TrainingArguments
        if self._guards(value) or (self.guards and isinstance(value, ast.Constant)):
            self.tainted.add(target.id)
        name, maker = self.qualified(value), self._made_with(value, PARTIAL)
        if maker is not None and self.qualified(maker) is not None:
            self.names[target.id] = self.qualified(maker) or ""
            return
        if name is not None and isinstance(value, ast.Name | ast.Attribute):
            if name.rpartition(".")[2][:1].isupper() or name.startswith(":"):
                self.names[target.id] = name
            return
        self.types[self.scopes[-1], target.id] = self._made(value, target.id)

    def _place(self, node: ast.expr) -> str:
        """By what `spread` knows `kwargs`, `self.kwargs`, `Config.kwargs`, `config.kwargs`, `config["kwargs"]`; "" for
        what it doesn't know."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return f"{inner}[{node.slice.value!r}]" if (inner := self._place(node.value)) else ""
        if isinstance(node, ast.Attribute):
            named = self.qualified(node.value)
            owner = named if named in self.classes else self.kind(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        if isinstance(node, ast.Name):
            return f"{self.scopes[-1]}.{node.id}" if self.scopes[-1] in self.classes else node.id
        return ""

    def _made(self, value: ast.expr, name: str) -> str | None:
        """The class of what an expression makes, where that is a trainer's or an argument class."""
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Call):  # parse_...()[0]
            classes = self._parsed(value.value)
            place = value.slice.value if isinstance(value.slice, ast.Constant) else None
            return classes[place] if isinstance(place, int) and place < len(classes) else None
        if not isinstance(value, ast.Call):
            return self.kind(value)
        if classes := self._parses(value):
            self.parsers[name] = classes
            return None
        called = self.qualified(value.func)
        real = self.library_name(called)
        return called if called in self.classes or (real is not None and _OBJECTS.search(real)) else None

    def _parsed(self, value: ast.Call) -> list[str | None]:
        """The classes of what a parser gives back: `parser.parse_args_into_dataclasses()`."""
        if not (isinstance(value.func, ast.Attribute) and value.func.attr.startswith("parse_")):
            return []
        parser = value.func.value
        if isinstance(parser, ast.Name):
            return self.parsers.get(parser.id, [])
        return self._parses(parser) if isinstance(parser, ast.Call) else []

    def _parses(self, made: ast.Call) -> list[str | None]:
        """The classes that a parser is made for."""
        called = self.qualified(made.func)
        if called is None or called.rpartition(".")[2] not in _PARSERS:
            return []
        named = [word.value for word in made.keywords if word.arg == "dataclass_types"]
        for first in [*made.args, *named][:1]:
            elements = first.elts if isinstance(first, ast.Tuple | ast.List) else [first]
            return [self.qualified(one) for one in elements]
        return []

    # Expressions

    def visit_Call(self, node: ast.Call) -> None:
        name = self.qualified(node.func)
        if (made := self._made_with(node, PARTIAL)) is not None:
            name = self.qualified(made)
        elif (changed := self._made_with(node, REPLACE)) is not None:
            name = self.kind(changed)
        real = self.library_name(name)
        if name is not None and real is not None:
            skipped: set[str] = self.own(name)
            if not (name in self.classes and self.classes[name].constructs):
                chosen = isinstance(node.func, ast.Name) and node.func.id in self.chosen
                with self._within(IF_THERE if chosen else 0):
                    self._keywords(real, node, skipped)
        elif isinstance(node.func, ast.Attribute):
            kind = self.kind(node.func.value)
            real = self.library_name(kind)
            self._changes(node.func, node)
            if ast.unparse(node.func) == "super().__init__":
                inside = next((scope for scope in reversed(self.scopes) if scope in self.classes), None)
                real = self.library_name(inside)
                if real is not None:
                    self._keywords(real, node, set())
            elif real is not None and _OBJECTS.search(real) and node.func.attr not in self.own(kind):
                self._keywords(f"{real}.{node.func.attr}", node, set())
        self.generic_visit(node)

    def _made_with(self, node: ast.expr, functions: Collection[str]) -> ast.expr | None:
        """What `partial(SFTConfig, ...)` or `replace(args, ...)` is given first."""
        called = isinstance(node, ast.Call) and ast.unparse(node.func) in functions
        return node.args[0] if called and isinstance(node, ast.Call) and node.args else None

    def _keywords(self, name: str, node: ast.Call, skipped: set[str]) -> None:
        given: list[tuple[str, int, int]] = []
        for keyword in node.keywords:
            if keyword.arg is not None:
                given.append((keyword.arg, keyword.value.lineno, 0))
            elif (literal := entries_of(keyword.value)) is not None:
                given += [(word, line, 0) for word, line in literal]
            else:
                given += self.spread.get(self._place(keyword.value)) or []
        for word, line, how in given:
            if word not in skipped:
                with self._within(how):
                    self.add(name, line, keywords=(word,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        kind = self.kind(node.value)
        real = self.library_name(kind)
        if real is not None and isinstance(node.ctx, ast.Load) and node.attr not in self.own(kind):
            if _OBJECTS.search(real) and not node.attr.startswith("__"):
                self.add(real, node.lineno, attributes=(node.attr,))
        else:
            name = self.qualified(node)
            if name is not None and self.library_name(name):
                self.add(name, node.lineno, imported=name.rpartition(".")[0].islower())
                return
        self.generic_visit(node)


def uses_of(text: str, roots: Iterable[str] = ("trl", "transformers", "peft", "accelerate")) -> list[Use]:
    """What a script uses, in the order of its lines. SyntaxError for text that isn't Python."""
    return uses_and_guards(text, roots)[0]


def uses_and_guards(
    text: str, roots: Iterable[str], before: frozenset[str] | None = None
) -> tuple[list[Use], frozenset[int]]:
    """What a script uses, and the lines of what stands in it for some releases alone; `before`: TRL's names that are
    imported before Unsloth, where a text of several files doesn't tell it."""
    reader = _Reader(tuple(roots))
    tree = syntax_tree(text)
    reader.visit(tree)
    return list(_told(text, tree, reader, before)), frozenset(reader.guarded)


def _told(text: str, tree: ast.Module, reader: _Reader, before: frozenset[str] | None) -> Iterator[Use]:
    patched = re.search(r"(?m)^\s*(?:from|import) unsloth\b", text) is not None
    if before is None:
        before = before_unsloth(tree) if patched else frozenset()
    for use in reader.uses:
        of_trl = not use.name.startswith("trl.") or not before.isdisjoint(use.name.split("."))
        if patched and not use.imported and not of_trl and taken_by_unsloth(use.name, use.keywords):
            use = Use(use.name, use.keywords, use.attributes, use.line, True)
        yield use

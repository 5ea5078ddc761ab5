"""Follows data through the text of a project: which fields of which read are used, and as what.

Statements are taken in their order, functions when they are first called; a name gets a new shape with each assignment,
parameters and results are merged over all calls. What calls mean is in `calls`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from .expressions import Expressions
from .shapes import PARTS, Shape, find, merge

SPLITS = ("train", "test", "validation", "valid", "val", "dev", "eval", "evaluation", "unlabeled", "unsupervised")


@dataclass(eq=False)
class Function:
    """A function of the project: its parameters and its result over all calls."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    parameters: list[str]
    shapes: dict[str, Shape]
    result: Shape = field(default_factory=Shape)
    entered: bool = False
    place: int = 0  # of the text

    @property
    def first(self) -> Shape:
        """The first parameter, which is the row where the function is given to `map`."""
        return self.shapes[self.parameters[0]] if self.parameters else Shape()


class Scope(dict[str, Shape]):
    """Names and what they hold; `outer` is where else to look."""

    def __init__(self, outer: Scope | None = None) -> None:
        super().__init__()
        self.outer = outer

    def look(self, name: str) -> Shape | None:
        here: Scope | None = self
        while here is not None:
            if name in here:
                return here[name]
            here = here.outer
        return None


class Reader(Expressions):
    """Reads whole texts; afterwards `roots`, `rows`, `sinks` and `made` hold what was found."""

    def __init__(self, sources: Sequence[str], arguments: Sequence[str] = ()) -> None:
        super().__init__(arguments)
        trees = []
        for text in sources:
            try:
                trees.append(ast.parse(text))
            except (SyntaxError, ValueError, RecursionError):
                trees.append(ast.Module([], []))
        everywhere = Scope()
        scopes = [Scope(everywhere) for _ in trees]
        for tree in trees:
            self.collect_defaults(tree)
        for place, (tree, scope) in enumerate(zip(trees, scopes, strict=False)):
            self.place = place
            for node in tree.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    # A module's own function before another module's of the same name.
                    scope[node.name] = everywhere[node.name] = self.define(node, scope)
                elif isinstance(node, ast.ClassDef):
                    self.define_class(node, scope)
        for place, (tree, scope) in enumerate(zip(trees, scopes, strict=False)):
            self.place = place
            for node in tree.body:
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    self.run(node, scope)
        for function in self.functions:
            self.enter(function)
        self.resolve()

    def define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> Shape:
        """The shape of a function, called later."""
        words = node.args
        names = [word.arg for word in (*words.posonlyargs, *words.args, *words.kwonlyargs)]
        function = Function(node, scope, names, {name: Shape() for name in names})
        plain = [*words.posonlyargs, *words.args]
        for word, default in zip(plain[len(plain) - len(words.defaults) :], words.defaults, strict=False):
            if isinstance(default, ast.Constant) and isinstance(default.value, str):
                function.shapes[word.arg].constants.append(default.value)
        function.place = self.place
        self.functions.append(function)
        shape = Shape()
        shape.functions.append(function)
        return shape

    def define_class(self, node: ast.ClassDef, scope: Scope) -> None:
        made = Shape()
        methods: dict[str, Function] = {}
        for part in node.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                function = self.define(part, scope).functions[0]
                still = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in part.decorator_list)
                if function.parameters and not still:
                    function.shapes[function.parameters.pop(0)] = made
                methods[part.name] = function
        self.classes[node.name] = (made, methods)

    def enter(self, function: Function) -> None:
        """Read the body of `function`, once."""
        if function.entered:
            return
        function.entered = True
        before, self.place = self.place, function.place
        self.inside.append(function)
        scope = Scope(function.scope)
        scope.update(function.shapes)
        if isinstance(function.node, ast.Lambda):
            merge(function.result, self.value(function.node.body, scope))
        else:
            self.returns.append(function.result)
            for node in function.node.body:
                self.run(node, scope)
            self.returns.pop()
        self.inside.pop()
        self.place = before

    def run(self, node: ast.stmt, scope: Scope) -> None:
        """One statement."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            scope[node.name] = self.define(node, scope)
        elif isinstance(node, ast.ClassDef):
            self.define_class(node, scope)
        elif isinstance(node, ast.Assign):
            held = self.value(node.value, scope)
            for target in node.targets:
                self.bind(target, held, scope, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.bind(node.target, self.value(node.value, scope), scope, node.value)
        elif isinstance(node, ast.AugAssign):
            held = self.value(node.value, scope)
            before = self.value(_as_load(node.target), scope)
            if not isinstance(node.value, ast.Constant | ast.JoinedStr | ast.BinOp):
                merge(before, held)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.loop(node.target, node.iter, [*node.body, *node.orelse], scope)
            self.block([*node.body, *node.orelse], scope)
        elif isinstance(node, ast.While):
            self.value(node.test, scope)
            self.block([*node.body, *node.orelse], scope)
        elif isinstance(node, ast.If):
            self.value(node.test, scope)
            if _gives_up(node.body):
                self.asked_for(node.test, scope)
            self.branches([node.body, node.orelse], scope)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                held = self.value(item.context_expr, scope)
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, held, scope)
            self.block(node.body, scope)
        elif isinstance(node, ast.Try):
            self.block(node.body, scope)
            for handler in node.handlers:
                self.block(handler.body, scope)
            self.block([*node.orelse, *node.finalbody], scope)
        elif isinstance(node, ast.Return | ast.Expr) and node.value is not None:
            held = self.value(node.value, scope)
            if isinstance(node, ast.Return) and self.returns:
                merge(self.returns[-1], held)
        elif isinstance(node, ast.Assert):
            self.value(node.test, scope)
        elif isinstance(node, ast.Match):
            self.value(node.subject, scope)
            self.branches([case.body for case in node.cases], scope)

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        for node in body:
            self.run(node, scope)

    def branches(self, bodies: Sequence[Sequence[ast.stmt]], scope: Scope) -> None:
        """Bodies of which one runs: a name that they leave with different data holds either."""
        before = dict(scope)
        ends: list[dict[str, Shape]] = []
        for body in bodies:
            scope.clear()
            scope.update(before)
            self.block(body, scope)
            if not (body and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue)):
                ends.append(dict(scope))
        scope.clear()
        scope.update(before)
        for name in {name for end in ends for name in end}:
            held = list({id(find(end[name])): end[name] for end in ends if name in end}.values())
            last = [one for one in held if not any(self.comes_from(other, one) for other in held if other is not one)]
            for other in last[1:]:
                merge(last[0], other)
            scope[name] = (last or held)[0]

    def bind(self, target: ast.expr, held: Shape, scope: Scope, source: ast.expr | None = None) -> None:
        """Assign."""
        if isinstance(target, ast.Name):
            scope[target.id] = held
        elif isinstance(target, ast.Tuple | ast.List):
            here = find(held)
            for index, part in enumerate(target.elts):
                place = f"\0#{index}"
                self.bind(part, here.fields[place] if place in here.fields else held.item(), scope)
            if isinstance(source, ast.Call) and not any(name[:2] == "\0#" for name in here.fields):
                self.separated(source, len(target.elts) - 1, scope)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, held, scope)
        elif isinstance(target, ast.Attribute):
            merge(self.value(target.value, scope).field(f"\0.{target.attr}"), held)
        elif isinstance(target, ast.Subscript):
            base, keys = self.value(target.value, scope), self.value(target.slice, scope).constants
            for key in keys:
                base.store(key, held)

    def loop(self, target: ast.expr, over: ast.expr, body: Sequence[ast.AST], scope: Scope) -> None:
        """Bind the target of a loop: an item, a key where the body looks up what is at it, or an item's parts."""
        held, walked = self.value(over, scope), _walked(over)
        if isinstance(target, ast.Name) and any(_looks_up(node, walked, target.id) for node in body):
            self.value(walked, scope).use("mapping")
            scope[target.id] = Shape()
            return
        item = self.walked(held)
        if isinstance(target, ast.Tuple | ast.List) and not any(name[:2] == "\0#" for name in item.fields):
            if not any(isinstance(part, ast.Starred) for part in target.elts):
                item.use(f"{PARTS}{len(target.elts)}")
        self.bind(target, item, scope)

    def walked(self, held: Shape) -> Shape:
        held.use("walked")
        return held.item()

    def resolve(self) -> None:
        """Splits are datasets too, a dataset's fields are columns, and rows of a `map` come from those before."""
        for _ in range(6):
            for data in self.datasets:
                here = find(data)
                for name in sorted(here.loaded):
                    part = here.fields[name]
                    here.loaded.discard(name)
                    if name.startswith(SPLITS) or name.split("_")[0] in SPLITS:
                        merge(data, part)
                    elif name not in here.stored:
                        column = data.item().load(name)
                        if find(part) is not find(column):
                            merge(column, part.item()) if find(part).items is not None else merge(column, part)
                    here = find(data)
                for name in [name for name in here.stored if not name.startswith(SPLITS)]:
                    if name not in data.item().loaded:
                        find(data.item()).stored.add(name)
            for batch, row in self.batched:
                for name, part in batch.columns().items():
                    merge(row.load(name), part.item())
            for later, earlier, made, renamed in self.derived:
                own = set(find(made).stored) | {key for held in [find(made)] for key in held.stored}
                if find(later) is find(earlier):
                    continue
                for name, part in later.columns().items():
                    if name in renamed:
                        merge(earlier.load(renamed[name]), part)
                    elif name not in own:
                        merge(earlier.load(name), part)


def _walked(over: ast.expr) -> ast.expr:
    """What a loop goes over without what counts, sorts or shows it: `data` of `sorted(data.keys())`."""
    while isinstance(over, ast.Call):
        if isinstance(over.func, ast.Attribute) and over.func.attr == "keys":
            over = over.func.value
        elif over.args and getattr(over.func, "id", "") in ("list", "sorted", "set", "tuple", "tqdm"):
            over = over.args[0]
        else:
            break
    return over


def _looks_up(node: ast.AST, held: ast.expr, key: str) -> bool:
    """Whether a loop's body reads `held[key]`; a list of numbers isn't asked for at its own items."""
    if not isinstance(held, ast.Name | ast.Attribute | ast.Subscript):
        return False
    said = ast.dump(held)
    return any(
        isinstance(part, ast.Subscript)
        and isinstance(part.slice, ast.Name)
        and part.slice.id == key
        and ast.dump(part.value) == said
        for part in ast.walk(node)
    )


def _gives_up(body: Sequence[ast.stmt]) -> bool:
    """Whether what comes here is left out: `return None`, `return False`, `continue`."""
    last = body[-1]
    if not isinstance(last, ast.Return):
        return isinstance(last, ast.Continue)
    return last.value is None or (isinstance(last.value, ast.Constant) and last.value.value in (None, False, ""))


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target

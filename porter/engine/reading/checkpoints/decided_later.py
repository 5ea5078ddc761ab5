"""What train() resumes from where the script decides it behind its trainer, as one expression of what is known there:

    checkpoint = args.resume
    if checkpoint and not Path(checkpoint).exists():
        checkpoint = None
    trainer.train(resume_from_checkpoint=checkpoint)

is `None if args.resume and not Path(args.resume).exists() else args.resume`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from ....source.scopes import Binding, inside
from ....text.expressions import atom, choice, names_in, operand, parsed
from ...script.training import Training
from .own_checkpoints import finds_last, folders_of

LOOKS = frozenset(
    """
    exists lexists isdir is_dir isfile is_file listdir iterdir glob iglob join Path str int len bool any all max min
    sorted list get getenv getattr startswith endswith split lower strip abspath resolve expanduser get_last_checkpoint
    """.split()
)
MAX_NAMES = 4  # names between train() and what is known at the trainer


def chosen_behind(porting: Training, value: cst.BaseExpression) -> str | None:
    """What a variable holds that is made behind the trainer alone, as one expression; None where it can't be one."""
    return _chosen_behind(porting, value, 0)


def _chosen_behind(porting: Training, value: cst.BaseExpression, depth: int) -> str | None:
    found, trainer = porting.module.meaning(value), porting.trainer
    if not isinstance(value, cst.Name) or found is None or trainer is None:
        return None
    later = [item for item in found[1] if item.kind != "parameter" and start(porting, item) > trainer.statement_start]
    return _chosen(porting, value.value, later, depth) if later and len(later) == len(found[1]) else None


def _chosen(porting: Training, variable: str, bindings: list[Binding], depth: int) -> str | None:
    """What a variable holds behind `bindings`, all that make it, as one expression; None where it can't be one.

    `if a: x = a` ⏎ `elif test: x = b` is `a or (b if test else None)`.
    """
    module = porting.module
    if any(binding.kind != "assign" or binding.value is None for binding in bindings):
        return None
    above = [[*module.ancestors(binding.node)] for binding in bindings]
    blocks = (node for node in above[0] if isinstance(node, cst.IndentedBlock | cst.Module))
    block = next((node for node in blocks if all(node in others for others in above)), None)
    makers = {binding.node: binding.value for binding in bindings if binding.value is not None}
    if block is None:
        return None
    try:
        return _Choice(porting, variable, makers, depth).behind(block.body, "None")
    except _NotOneExpression:
        return None


class _NotOneExpression(Exception):
    """A loop, a `try`, or a condition that isn't known at the trainer decides."""


@dataclass(frozen=True)
class _Choice:
    """What a variable holds, statement by statement; `makers`: what it is given, by the assignments."""

    porting: Training
    variable: str
    makers: Mapping[cst.CSTNode, cst.BaseExpression]
    depth: int

    def behind(self, statements: Sequence[cst.CSTNode], value: str) -> str:
        """What the variable, which holds `value`, holds behind some statements."""
        for statement in statements:
            parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
            made = next((self.makers[part] for part in parts if part in self.makers), None)
            if made is not None:
                value = self._known(made, value)
            elif not any(statement in self.porting.module.ancestors(maker) for maker in self.makers):
                continue
            elif isinstance(statement, cst.If):
                value = self._either(statement, value)
            else:
                raise _NotOneExpression
        return value

    def _either(self, branch: cst.If, value: str) -> str:
        test, other = self._known(branch.test, value), branch.orelse
        one = self.behind(branch.body.body, value)
        if isinstance(other, cst.If):
            value = self._either(other, value)
        elif other is not None:
            value = self.behind(other.body.body, value)
        if one == value:
            return one
        if test in (one, f"{one} is not None"):
            return one if value == "None" else f"{operand(one)} or {operand(value)}"
        return f"({choice(test, one, value)})"

    def _known(self, node: cst.BaseExpression, value: str) -> str:
        """An expression as it can stand at the trainer, where the variable holds `value`; the script's own
        `find_last(OUTPUT)` asks for Orbax's, also in `find_last(OUTPUT) if args.resume else None`."""
        porting = self.porting
        if isinstance(node, cst.IfExp):
            test, one, other = (self._known(part, value) for part in (node.test, node.body, node.orelse))
            return f"({choice(test, one, other)})"
        if isinstance(node, cst.Call) and finds_last(porting, node) == "last":
            folder = next((folder for folder in folders_of(porting) if is_there(porting, folder, node)), None)
            if folder is not None:
                asks = f"{porting.rt('get_last_checkpoint')}({folder})"
                porting.resume_test = node, asks
                return asks
        code = " ".join(porting.module.code(node).split())
        later = {name for name in names_in(code) if not is_there(porting, name, node)}
        return with_names(code, {name: self._held(node, name, value) for name in later}) if later else code

    def _held(self, node: cst.BaseExpression, name: str, value: str) -> str:
        """What a name that is bound behind the trainer holds where `node` stands."""
        if name == self.variable:
            return value
        uses = (part for part in inside(node) if isinstance(part, cst.Name) and part.value == name)
        use = next((part for part in uses if not self._is_rebound(part)), None)
        held = _chosen_behind(self.porting, use, self.depth + 1) if use is not None and self.depth < MAX_NAMES else None
        if held is None or not all(_only_looks(call) for call in _calls_in(held)):
            raise _NotOneExpression
        return held

    def _is_rebound(self, use: cst.Name) -> bool:
        """Whether a name may hold something else where it is used than behind all that binds it."""
        found = self.porting.module.meaning(use)
        return found is None or any(start(self.porting, item) > self.porting.module.span(use)[0] for item in found[1])


def _calls_in(code: str) -> Iterator[ast.Call]:
    return (part for part in ast.walk(parsed(code)) if isinstance(part, ast.Call))


def _only_looks(call: ast.Call) -> bool:
    """Whether a call may be made once more, at the trainer: it changes nothing, and asks nobody."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in LOOKS


def with_names(code: str, held: Mapping[str, str]) -> str:
    """An expression of one line with other expressions in place of names."""
    raw = f"({code})".encode()  # places of the tree count bytes
    names = [part for part in ast.walk(ast.parse(raw, mode="eval")) if isinstance(part, ast.Name) and part.id in held]
    if any(isinstance(part, ast.JoinedStr | ast.NamedExpr) for part in ast.walk(ast.parse(raw, mode="eval"))):
        raise _NotOneExpression  # the tree doesn't say where the names of an f-string stand
    for name in sorted(names, key=lambda part: part.col_offset, reverse=True):
        end = name.col_offset + len(name.id.encode())
        raw = raw[: name.col_offset] + atom(held[name.id]).encode() + raw[end:]
    return raw.decode()[1:-1]


def is_there(porting: Training, code: str, node: cst.CSTNode) -> bool:
    """Whether all names of code that stands at `node` mean the same at the trainer."""
    trainer = porting.trainer
    assert trainer is not None
    for name in names_in(code):
        found = trainer.scope.lookup(name)
        same = porting.module.scope(node).lookup(name)
        if found is None and same is None and hasattr(builtins, name):
            continue
        if found is None or same is None or found[0] is not same[0]:
            return False
        if any(item.kind != "parameter" and start(porting, item) >= trainer.statement_start for item in found[1]):
            return False
    return True


def start(porting: Training, binding: Binding) -> int:
    """Where the statement of a binding begins."""
    return porting.module.span(binding.node)[0]

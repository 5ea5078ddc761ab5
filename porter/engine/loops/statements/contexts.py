"""The contexts of a training step, `with torch.autocast(...):`, and what each means for it.

`model.no_sync()` leaves out sums of gradients that the step's last batch makes up for; a mesh has none to leave out.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ....source.module import Module
from .blocks import last_name

PLAIN = ("nullcontext", "set_detect_anomaly", "detect_anomaly", "no_sync", "sdpa_kernel", "sdp_kernel",
         "record_function", "enable_grad")  # fmt: skip


@dataclass(frozen=True)
class Context:
    """What a context does.

    `autocast`: the condition under which products are computed in 16 bits, "" for always, None for never.
    """

    accumulates: bool = False
    autocast: str | None = None
    flag: cst.BaseExpression | None = None  # the condition's node, where it is one of the file


class Contexts:
    """What contexts mean, and the names that hold one."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._names: dict[str, Context] = {}

    def named(self, name: str, value: cst.BaseExpression) -> bool:
        """Whether `name = value` holds a context, or the function that makes one, which is remembered."""
        found = self.meaning(value)
        if found is not None:
            self._names[name] = found
        return found is not None

    def chosen(self, node: cst.If) -> bool:
        """Whether an `if` with its `else` only chooses a context: `sync = model.no_sync()`, else `nullcontext()`."""
        found: list[tuple[str, Context]] = []
        bodies = [node.body, *([node.orelse.body] if isinstance(node.orelse, cst.Else) else [])]
        for body in bodies:
            for line in body.body if isinstance(body, cst.IndentedBlock) else ():
                small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
                if not isinstance(small, cst.Assign) or not isinstance(small.targets[0].target, cst.Name):
                    return False
                meant = self.meaning(small.value)
                if meant is None:
                    return False
                found.append((small.targets[0].target.value, meant))
        if len(found) != 2 or found[0][0] != found[1][0]:
            return False
        self._names[found[0][0]] = self._either(node.test, found[0][1], found[1][1])
        return True

    def meaning(self, node: cst.BaseExpression, depth: int = 0) -> Context | None:
        """What a context does to the step; None where that is not known."""
        if depth > 4:
            return None
        if isinstance(node, cst.IfExp):
            first, other = self.meaning(node.body, depth + 1), self.meaning(node.orelse, depth + 1)
            return self._either(node.test, first, other) if first is not None and other is not None else None
        name = node.func if isinstance(node, cst.Call) else node
        if isinstance(name, cst.IfExp):
            return self.meaning(name, depth + 1)
        last = last_name(name)
        if last == "accumulate":
            return Context(accumulates=True)
        if last == "autocast" and (isinstance(node, cst.Call) or isinstance(name, cst.Attribute)):
            return Context(autocast=self._enabled(node), flag=self._setting(node)) if self._is_on(node) else Context()
        if last in PLAIN:
            return Context()
        return self._held(name, depth) if isinstance(name, cst.Name) else None

    def _held(self, name: cst.Name, depth: int) -> Context | None:
        """What a name holds: one context, or in the two ways of an `if` one each."""
        if name.value in self._names:
            return self._names[name.value]
        found = self.module.meaning(name)
        bindings = found[1] if found is not None else []
        if any(binding.value is None for binding in bindings) or not 1 <= len(bindings) <= 2:
            return None
        meant = [self.meaning(binding.value, depth + 1) for binding in bindings if binding.value is not None]
        if len(meant) == 1:
            return meant[0]
        tests = [self._if_of(binding.node) for binding in bindings]
        first, other = meant
        if first is None or other is None or tests[0] is None or tests[0] is not tests[1]:
            return None
        return self._either(tests[0].test, first, other)

    def _if_of(self, node: cst.CSTNode) -> cst.If | None:
        return next((parent for parent in self.module.ancestors(node) if isinstance(parent, cst.If)), None)

    def _either(self, test: cst.BaseExpression, first: Context, other: Context) -> Context:
        if first.autocast == other.autocast:
            return Context(first.accumulates or other.accumulates, first.autocast, first.flag)
        if first.autocast == "" and other.autocast is None:
            return Context(first.accumulates or other.accumulates, self.module.code(test), test)
        code = self.module.code(test)
        said = []
        for context, asked in ((first, code), (other, f"not ({code})")):
            if context.autocast is not None:
                said.append(f"({asked}) and ({context.autocast})" if context.autocast else asked)
        return Context(first.accumulates or other.accumulates, " or ".join(said))

    def _setting(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        arguments = node.args if isinstance(node, cst.Call) else ()
        keyword = [each.value for each in arguments if each.keyword is not None and each.keyword.value == "enabled"]
        return keyword[0] if keyword else None

    def _is_on(self, node: cst.BaseExpression) -> bool:
        """Not `enabled=False`."""
        setting = self._setting(node)
        return setting is None or self.module.code(setting) != "False"

    def _enabled(self, node: cst.BaseExpression) -> str:
        setting = self._setting(node)
        code = self.module.code(setting) if setting is not None else "True"
        return "" if code == "True" else code

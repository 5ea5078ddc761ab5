"""Rewrites of names that stand anywhere in the file: `torch.bfloat16`, `trl.TrlParser`, `torch.cuda.empty_cache()`."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from ...runtime.facts.argument_fields import is_of_another_day
from ...runtime.facts.field_tables import version_key
from ...text.edits import Spans
from ..dating.argument_releases import ArgumentRelease, rewritten_by
from ..packs.pack import Rewrite
from ..packs.said_by_packs import dated_library, loader, newest_of
from ..script.fill_from_tables import plain_version, tables_of
from ..script.porting import KEPT, Porting
from ..script.sites import facts_of
from ..steps.step import Phase, step
from .member_uses import apply_rewrite, member_rules, stands_for_call
from .python_rules import answer, in_turn, is_claimed


# The tables of names come last: they take what no step of its own has claimed.
@step(Phase.ANSWER, reads=("claimed names",), fills=("moved",))
def apply_rewrites(porting: Porting) -> None:
    """Let the packs' rules answer every use of an imported name outside the replaced sites."""
    rules = member_rules(porting)
    roots = {match.split(".", 1)[0] for match in rules if not match.startswith("@")}
    if not roots & porting.module.roots:
        return
    covered = Spans((edit.start, edit.end) for edit in porting.edits)
    written = porting.written_names()
    found = _uses(porting, roots)
    kept = porting.answers.get(KEPT, ())
    for node, name in found:
        if node in kept:
            continue
        parent = porting.module.parents[node]
        call = parent if isinstance(parent, cst.Call) and parent.func is node else None
        match = name if name in rules or call is None else f"{name}()"
        start = porting.module.span(node)[0]
        replaced = start in covered
        asked = call if call is not None and match.endswith("()") else node
        for rule in in_turn(porting, rules[match], match) if match in rules else ():
            if is_claimed(porting, rule, asked):
                break
            if isinstance(rule, Rewrite):
                uses = [use for use, other in found if other == name]
                _apply_rewrite(porting, rule, name, node, call, uses, written if replaced else None)
                break
            if replaced or porting.covered(start) or answer(porting, rule, asked, "", name, match):
                break


def _apply_rewrite(
    porting: Porting,
    rule: Rewrite,
    name: str,
    node: cst.BaseExpression,
    call: cst.Call | None,
    uses: list[cst.BaseExpression],
    written: frozenset[str] | None,
) -> None:
    """Do what a rewrite says at `node`, one of the `uses` of `name`; `written`: what new code names, if it is gone."""
    replaced = written is not None
    if rule.action == "import":
        short = name.rsplit(".", 1)[-1]
        if written is None or any(short in part.split(".") for part in written):  # called, or handed on
            _import(porting, rule, name, uses)
            if replaced and isinstance(node, cst.Attribute):
                _spell_short(porting, rule, node, short)
        return
    outer = call if call is not None and (rule.action != "replace" or stands_for_call(rule.replacement)) else node
    if rule.keep_in_calls and not replaced and _in_call(porting, node):
        return
    if replaced:
        _respell(porting, rule, outer)
    else:
        apply_rewrite(porting, rule, outer, "", "call" if outer is call else "read")


def _in_call(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether `node` stands in an argument of a call, in its own statement."""
    for ancestor in porting.module.ancestors(node):
        if isinstance(ancestor, cst.Arg):
            return not _looks_up(porting.module.parents[ancestor])
        if isinstance(ancestor, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            return False
    return False


def _looks_up(call: cst.CSTNode) -> bool:
    """Whether a call reads a dictionary, `types.get(name, torch.bfloat16)`: what it gives is one of the types there."""
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "get"


def _respell(porting: Porting, rule: Rewrite, node: cst.BaseExpression) -> None:
    """A name of the source that new code repeats (`dtype=torch.bfloat16 if ... else None`) is rewritten there too."""
    if rule.action == "replace" and porting.repeats(node):
        porting.imports.update(rule.imports)
        said = rule.replacement.replace("{processes}", str(porting.known("mesh.processes", 1)))
        porting.respell(porting.module.code(node), said)


def _spell_short(porting: Porting, rule: Rewrite, node: cst.BaseExpression, short: str) -> None:
    """`transformers.TrainingArguments` that new code repeats is written `TrainingArguments`, that of its release."""
    if porting.repeats(node):
        release = None if rule.library else _release(porting, rule, short, node)
        porting.respell(porting.module.code(node), _spelling(porting, rule, short, release)())


def _spelling(porting: Porting, rule: Rewrite, short: str, release: ArgumentRelease | None) -> Callable[[], str]:
    """How a name of the runtime is written where the source wrote it dotted: `TrainingArguments`, and its import; where
    the file has a class of that name (`class TrainingArguments(transformers.TrainingArguments)`), behind its module.
    """
    own = any(
        binding.kind != "import"
        for scope in porting.module.scopes.values()
        for binding in scope.bindings.get(short, ())
    )

    def spelled() -> str:
        if release:
            porting.imports.add(f"from {porting.runtime_module(rule.module)} import {release.function}")
            return release.call([short])
        if not own:
            porting.imports.add(f"from {porting.runtime_module(rule.module)} import {short}")
            return short
        package, bound = porting.runtime_module(), porting.fresh(rule.module, f"runtime_{rule.module}")
        alias = "" if bound == rule.module else f" as {bound}"
        porting.imports.add(f"from {package} import {rule.module}{alias}")
        return f"{bound}.{short}"

    return spelled


def _import(porting: Porting, rule: Rewrite, name: str, uses: list[cst.BaseExpression]) -> None:
    """The name stays as it is written and comes from the runtime instead; `trl.TrlParser` is written `TrlParser`."""
    short = name.rsplit(".", 1)[-1]
    release = _release(porting, rule, short, uses[0])
    porting.moved[name] = rule.library or porting.runtime_module(rule.module) + (release.suffix if release else "")
    spelled = _spelling(porting, rule, short, None if rule.library else release)
    for node in uses:
        if isinstance(node, cst.Attribute):
            start, end = porting.module.span(node)
            if not any(edit.start <= start < edit.end for edit in porting.edits):
                porting.edit(start, end, spelled(), rule.id, rule.reason)


def _release(porting: Porting, rule: Rewrite, name: str, use: cst.BaseExpression) -> ArgumentRelease | None:
    """The release of a class whose fields and defaults aren't those of the newest table; None where they are."""
    if not rule.releases or not (name.endswith(("Config", "Arguments")) and name[0].isupper()):
        return None
    library, extended = dated_library(porting.packs), loader(porting.packs).library
    newest = newest_of(porting.packs, library)
    version = plain_version(porting.versions.get(library, ""))
    own = plain_version(porting.versions.get(extended, ""))
    another = is_of_another_day(name, version or newest, own)
    beside = ((extended, own),) if another else ()
    made = tables_of(porting).get(porting.module.qualified(use) or "")
    is_config = made is not None and made.role == "arguments" and made.library == library
    if is_config and (patched := rewritten_by(porting, use)):
        by = next(each for each in facts_of(porting.module).rewrites_trainers if each in porting.module.roots)
        return ArgumentRelease(rule.releases, version or newest, ((by, patched), *beside))
    older = bool(version) and version_key(version) < version_key(newest)
    return ArgumentRelease(rule.releases, version or newest, beside) if older or another else None


def _uses(porting: Porting, roots: set[str]) -> list[tuple[cst.BaseExpression, str]]:
    """Every outermost name or attribute that is imported from one of `roots`, with its full name."""
    found: list[tuple[cst.BaseExpression, str]] = []
    module = porting.module
    bound = _bound_to(porting, roots)
    for node, parent in list(module.parents.items()):
        if not isinstance(node, cst.Name | cst.Attribute) or _root(node) not in bound:
            continue
        if isinstance(node, cst.Name) and not _is_imported(porting, node):
            continue  # an alias: what it was made from is rewritten
        if isinstance(parent, cst.ImportAlias | cst.ImportFrom | cst.AsName | cst.Param):
            continue
        if isinstance(parent, cst.Attribute) and parent.value is not node:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        name = _dotted(porting, node) if isinstance(node, cst.Attribute) else module.qualified(node)
        if name is not None and name.split(".", 1)[0] in roots:
            found.append((node, name))
    return sorted(found, key=lambda pair: module.span(pair[0])[0])


def _is_imported(porting: Porting, name: cst.Name) -> bool:
    found = porting.module.scope(name).lookup(name.value)
    return found is not None and all(binding.kind == "import" for binding in porting.module.meant(name, found[1]))


def _bound_to(porting: Porting, roots: set[str]) -> set[str]:
    """The names of the file that stand for something imported from `roots`, directly or by assignment."""
    found: set[str] = set()
    for scope in porting.module.scopes.values():
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                imported = binding.kind == "import" and binding.qualified.split(".", 1)[0] in roots
                if imported or (binding.kind == "assign" and isinstance(binding.value, cst.Call | cst.Attribute)):
                    found.add(name)
    return found


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute | cst.Call):
        node = node.value if isinstance(node, cst.Attribute) else node.func
    return node.value if isinstance(node, cst.Name) else ""


def _dotted(porting: Porting, node: cst.BaseExpression) -> str | None:
    """The full name of what `node` is: `accelerate.PartialState().is_main_process` too, through a variable or not."""
    module = porting.module
    if isinstance(node, cst.Call):
        head = _dotted(porting, node.func)
        return f"{head}()" if head else None
    found = module.qualified(node)
    if found is not None:
        return found
    if isinstance(node, cst.Attribute):
        head = _dotted(porting, node.value)
        return f"{head}.{node.attr.value}" if head and "()" in head else None
    if isinstance(node, cst.Name):
        binding = module.single_binding(node)
        if binding is not None and binding.kind == "assign" and isinstance(binding.value, cst.Call):
            name = module.qualified(binding.value.func)
            return f"{name}()" if name else None
    return None

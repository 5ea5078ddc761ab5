"""Rewrites of names that stand anywhere in the file: `torch.bfloat16`, `trl.TrlParser`, `torch.cuda.empty_cache()`."""

from __future__ import annotations

import libcst as cst

from .members import apply_rewrite, stands_for_call
from .packs import Rewrite
from .porting import Porting
from .reading import plain_version, version_key


def apply_rewrites(porting: Porting) -> None:
    """Apply the packs' rewrites to every use of an imported name outside the replaced sites."""
    rules: dict[str, Rewrite] = {}
    for pack in porting.packs:
        for rewrite in pack.rewrites:
            if porting.options.active(rewrite.id):
                for match in rewrite.matches:
                    rules.setdefault(match, rewrite)
    roots = {match.split(".", 1)[0] for match in rules if not match.startswith("@")}
    if not roots & porting.module.roots:
        return
    covered = [(edit.start, edit.end) for edit in porting.edits]
    written = "\n".join(edit.new for edit in porting.edits)
    for node, name in _uses(porting, roots):
        rule = rules.get(name) or rules.get(f"{name}()")
        if rule is None:
            continue
        start = porting.module.span(node)[0]
        replaced = any(begin <= start < end for begin, end in covered)
        if rule.action == "import":
            short = name.rsplit(".", 1)[-1]
            if not replaced or f"{short}(" in written:
                _import(porting, rule, name)
            continue
        if replaced:
            continue
        parent = porting.module.parents[node]
        called = isinstance(parent, cst.Call) and parent.func is node
        outer = parent if called and (rule.action != "replace" or stands_for_call(rule.replacement)) else node
        apply_rewrite(porting, rule, outer, "", "call" if outer is parent and called else "read")


def _import(porting: Porting, rule: Rewrite, name: str) -> None:
    """The name stays as it is written and comes from the runtime instead; `trl.TrlParser` is written `TrlParser`."""
    short = name.rsplit(".", 1)[-1]
    porting.moved[name] = porting.runtime_module(rule.module) + _release(porting, short)
    for node, found in _uses(porting, {name.split(".", 1)[0]}):
        if found == name and isinstance(node, cst.Attribute):
            start, end = porting.module.span(node)
            if not any(edit.start <= start < edit.end for edit in porting.edits):
                porting.imports.add(f"from {porting.runtime_module(rule.module)} import {short}")
                porting.edit(start, end, short, rule.id, rule.reason)


def _release(porting: Porting, name: str) -> str:
    """`@0.19` for a class whose fields and defaults are those of an older TRL; the newest table's need no version."""
    table = next(
        (rule.table for pack in porting.packs for rule in pack.tables if rule.table.name == "trl.SFTConfig"), None
    )
    version = plain_version(porting.versions.get("trl", ""))
    older = table is not None and version_key(version) < version_key(table.newest)
    return f"@{version}" if version and older and name.endswith(("Config", "Arguments")) and name[0].isupper() else ""


def _uses(porting: Porting, roots: set[str]) -> list[tuple[cst.BaseExpression, str]]:
    """Every outermost name or attribute that is imported from one of `roots`, with its full name."""
    found: list[tuple[cst.BaseExpression, str]] = []
    module = porting.module
    for node, parent in list(module.parents.items()):
        if not isinstance(node, cst.Name | cst.Attribute):
            continue
        if isinstance(parent, cst.ImportAlias | cst.ImportFrom | cst.AsName | cst.Param):
            continue
        if isinstance(parent, cst.Attribute) and parent.value is not node:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        name = module.qualified(node)
        if name is not None and name.split(".", 1)[0] in roots:
            found.append((node, name))
    return sorted(found, key=lambda pair: module.span(pair[0])[0])

"""The port of a script and its project's modules, file by file: imports, lost names, and what is left as each its own.

Everything before works on all files as one (`porter.source.merged`); imports and the last look belong to one file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from ...port import Port, Status
from ...recipe import Field, Recipe
from ...source.merged import Merged, Part
from ...source.module import Module
from ...source.scopes import Scope
from ...text.edit import Edit
from ...text.edits import Spans, apply_edits
from ...text.import_lines import names_in, parse_import
from ..draft.findings import Findings
from ..packs.facts import note_facts
from ..script.porting import Porting
from ..script.sites import facts_of

PASSED_ON = "passed on"  # what a file's memory calls the names that others take of it


def parts_of(module: Module) -> list[Part]:
    """The files of a module; itself when it is one."""
    return list(module.parts) if isinstance(module, Merged) else [Part(module, 0, 0)]


def own_edits(part: Part, edits: Sequence[Edit]) -> list[Edit]:
    """The edits of one file, with its own offsets and lines."""
    last = len(part.module.text)
    return [
        replace(edit, start=edit.start - part.start, end=min(edit.end - part.start, last), line=edit.line - part.line)
        for edit in edits
        if part.start <= edit.start < part.end
    ]


def whole_edits(part: Part, edits: Sequence[Edit]) -> list[Edit]:
    """The edits of one file, with the offsets and lines of all."""
    return [
        replace(edit, start=edit.start + part.start, end=edit.end + part.start, line=edit.line + part.line)
        for edit in edits
    ]


def view_of(porting: Porting, part: Part, edits: Sequence[Edit]) -> Porting:
    """A Porting of one file: the names it needs imported, and findings of its own."""
    if part.module is porting.module:
        return porting
    note_facts(part.module, facts_of(porting.module))
    written = names_in("\n".join(edit.new for edit in edits))
    bound = {text: parse_import(text).bound for text in porting.imports}
    imports = {text for text, name in bound.items() if re.search(rf"(?<![\w.]){re.escape(name)}\b", written)}
    return replace(porting, module=part.module, imports=imports, edits=list(edits), findings=Findings())


def take_back(porting: Porting, part: Part, view: Porting) -> None:
    """Put what was found in one file to what was found in all."""
    if view is porting:
        return
    porting.findings.take(view.findings, part.line)


def is_touched(porting: Porting, part: Part, edits: Sequence[Edit]) -> bool:
    """Whether a file changes: by an edit, or because a class that it imports comes from elsewhere now."""
    if edits or part.module is porting.module:
        return True
    imported = (
        binding.qualified for bindings in part.module.scopes[part.module.tree].bindings.values() for binding in bindings
    )
    return any(name in porting.moved for name in imported if name)


def note_passed_on(module: Module, edits: Sequence[Edit]) -> None:
    """Note with each file which of its names another takes by `from utils import *`, and keeps or writes."""
    parts = parts_of(module)
    spans = Spans((edit.start, edit.end) for edit in edits)
    taken: dict[Scope, set[str]] = {}
    for part in parts if len(parts) > 1 else ():
        scope = module.scopes[part.module.tree]
        written = names_in("\n".join(edit.new for edit in edits if part.start <= edit.start < part.end))
        for name, (home, there) in scope.links.items():
            if name in scope.bindings:
                continue
            uses = [module.span(use)[0] for use in module.references(there, home)]
            kept = any(part.start <= use < part.end and use not in spans for use in uses)
            if kept or re.search(rf"(?<![\w.]){re.escape(name)}\b(?!=[^=])", written):
                taken.setdefault(home, set()).add(there)
    for part in parts if taken else ():
        part.module.memory[PASSED_ON] = taken.get(module.scopes[part.module.tree], set())


def mesh_edits(porting: Porting, part: Part, edits: Sequence[Edit], everywhere: Sequence[Edit]) -> list[Edit]:
    """The mesh, in a file whose new code uses it and where it isn't made: equal meshes are one to JAX."""
    name = porting.names.mesh
    makes = re.compile(rf"(?m)^[ \t]*{re.escape(name)} = jax\.make_mesh\(.*$")
    uses = re.search(rf"(?<![\w.]){re.escape(name)}\b(?! =)", " ".join(edit.new for edit in edits)) is not None
    made = next((found for edit in everywhere if (found := makes.search(edit.new)) is not None), None)
    if part.module is porting.module or not uses or made is None or any(makes.search(edit.new) for edit in edits):
        return []
    offset = behind_imports(part.module)
    line, column = part.module.line_column(offset)
    newline = part.module.newline
    text = f"{newline}{made[0].strip()}{newline}"
    return [Edit(offset, offset, text, "TP302", "the devices and their axes, as in the script", line, column)]


def behind_imports(module: Module, before: int | None = None) -> int:
    """The line behind the last import at the top of a file (the script's) that stands in front of `before`; where
    there is none, the file's first place."""
    asked = f"behind imports {before}"
    if asked not in module.memory:
        module.memory[asked] = _behind_imports(module, len(module.text) if before is None else before)
    found: int = module.memory[asked]
    return found


def _behind_imports(module: Module, before: int) -> int:
    last: cst.CSTNode | None = None
    for node in module.tree.body:
        inner = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
        if isinstance(node, cst.FunctionDef | cst.ClassDef) or module.span(node)[0] >= before:
            break
        if isinstance(inner, cst.Import | cst.ImportFrom) and not _is_of_the_future(inner):
            last = node
    if last is None:
        return first_place(module)
    line_end = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)").match(module.text, module.span(last)[1])
    return line_end.end() if line_end is not None else len(module.text)


def first_place(module: Module) -> int:
    """Where a file's first statement of its own begins: behind its docstring and what it takes `from __future__`."""
    for index, node in enumerate(module.tree.body):
        inner = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
        is_docstring = index == 0 and isinstance(inner, cst.Expr) and isinstance(inner.value, cst.SimpleString)
        if not is_docstring and not _is_of_the_future(inner):
            decorators = getattr(node, "decorators", ())
            return module.span(decorators[0] if decorators else node)[0]
    return len(module.text)


def _is_of_the_future(node: cst.CSTNode | None) -> bool:
    name = node.module if isinstance(node, cst.ImportFrom) else None
    return isinstance(name, cst.Name) and name.value == "__future__"


def first_import(module: Module) -> cst.CSTNode | None:
    """The import of a helper module beside which new ones go: the last one at its top."""
    found = [
        node
        for node in module.tree.body
        if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Import | cst.ImportFrom)
    ]
    return next((node for node in reversed(found) if module.code(node).split()[1] != "__future__"), None)


def divided(port: Port, module: Merged, edits: Sequence[Edit]) -> Port:
    """The port of all files as the port of the script, with those of the other files that changed in `modules`.

    Nothing changes in a refused one: `modules` are the files that it is refused for.
    """
    ports = [_port_of(port, part, own_edits(part, edits), module) for part in module.parts]
    refused = port.status in ("unsupported", "unchanged")
    changed = tuple(other for other in ports[:-1] if other.after != other.before or (refused and other.findings))
    return replace(ports[-1], modules=changed)


def _port_of(port: Port, part: Part, edits: list[Edit], whole: Merged) -> Port:
    is_main = part is whole.parts[-1]
    last = part.line + len(part.module._line_starts)

    def here(line: int) -> bool:
        return part.line < line <= last

    findings = tuple(replace(row, line=row.line - part.line) for row in port.findings if here(row.line))
    fields = tuple(
        row if _is_launch(row) else replace(row, line=row.line - part.line)
        for row in port.fields
        if (is_main and _is_launch(row)) or (not _is_launch(row) and here(row.line))
    )
    base = port.recipe if is_main else Recipe(part.module.path, versions=port.recipe.versions)
    after = apply_edits(part.module.text, edits) if edits else part.module.as_written
    todo = any("TODO(tpu-port" in edit.new for edit in edits)
    errors = todo or any(finding.severity == "error" for finding in findings)
    status: Status = "partial" if errors else "ported"
    if is_main and port.status == "partial":
        status = "partial"
    if port.status in ("unsupported", "unchanged"):
        status = port.status
    return replace(
        port,
        path=part.module.path,
        before=part.module.as_written,
        after=after,
        status=status,
        recipe=replace(base, findings=findings, fields=fields),
        edits=tuple(sorted(edits, key=lambda edit: edit.start)),
        bom=part.module.bom,
        encoding=part.module.encoding,
        files=port.files if is_main else (),
    )


def _is_launch(row: Field) -> bool:
    """Whether a row stands in no file of the source: a launch file's setting, or a sum."""
    return ": " in row.source or row.line < 1

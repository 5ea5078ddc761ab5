"""Imports of the port: new ones where the old ones stood, old ones gone with their last use.

The import section is the run of import statements that holds the trainer's own import. New lines keep its
order when it was sorted, and stand at its end when it was not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from ...source.module import Module, flatten
from ...text.edit import Edit
from ...text.edits import Spans, whole_lines, within
from ...text.import_lines import ImportLine, NewImport, names_in
from ..packs.facts import Facts
from ..script.dead_blocks import is_dead
from ..script.sites import absent_packages, facts_of, indentation
from .left_uses import alias_name, aliases_of, first_of, is_behind, module_of, needed_by, root_of, shared_edits
from .names.gone_names import is_not_there, is_probe
from .per_file import PASSED_ON, first_place
from .turned_imports import Turned, is_top

OURS = ("porter", "porter_runtime")
RULE = "TP001"


@dataclass
class ImportPlan:
    """What `plan_imports` found: the edits, those that stand in front of everything else, and the GPU libraries that
    are still used, those of them that every run imports, and those only asked for by an import that may fail, with
    their lines.
    """

    edits: list[Edit] = field(default_factory=list)
    top: list[Edit] = field(default_factory=list)
    still_used: dict[str, int] = field(default_factory=dict)
    imported: dict[str, int] = field(default_factory=dict)
    asked_for: dict[str, int] = field(default_factory=dict)


def plan_imports(
    module: Module,
    edits: Sequence[Edit],
    new: Sequence[NewImport],
    moved: Mapping[str, str],
    anchor: cst.CSTNode | None,
) -> ImportPlan:
    """The edits of the import statements, given all other edits.

    `moved`: names that stay and come from another module now (`trl.TrlParser` → `porter.runtime.arguments`); with a
    release behind it (`porter.runtime.arguments@0.19@@`) a class is asked for as that release had it.
    `anchor` is the statement that imports the trainer; without one, or where it stands in a class, new imports go to
    the top of the file.
    """
    plan = ImportPlan()
    gone, elsewhere = _aliases_to_drop(module, edits, new, moved, plan)
    section = _section(module, anchor) if anchor is not None else []
    emptied = Spans((edit.start, edit.end) for edit in edits if not edit.new.strip())
    taken = [statement for statement in section if module.span(statement)[0] in emptied]  # by a rule
    gone |= {statement: [*aliases_of(statement)] for statement in taken}
    bound = _still_bound(module, gone, section, edits)
    turned = Turned(module, set() if section else {*new})
    for block in _blocks(module, gone, section, edits, elsewhere):
        plain, versioned = turned.imports(block[0], [item for each in block for item in elsewhere.get(each, ())])
        if block == section:
            plain = sorted({*new, *plain} - (turned.bound - {*plain}))
            plain = [item for item in plain if (item.module, item.clause) not in bound]
            turned.note(block[0], plain)
        elif len(block) == 1:
            plan.edits.append(_shrunk(module, block[0], gone[block[0]], plain, versioned, *elsewhere.get(block[0], ())))
            continue
        edit = _section_edit(module, block, gone, plain, versioned)
        plan.edits += [edit] if edit is not None else []
    wanted = [item for item in sorted({*new}) if (item.module, item.clause) not in bound]
    if not section and wanted:
        plan.top.append(_top_edit(module, wanted))
    return plan


def _blocks(
    module: Module,
    gone: Mapping[cst.SimpleStatementLine, Sequence[cst.ImportAlias]],
    section: Sequence[cst.SimpleStatementLine],
    edits: Sequence[Edit],
    elsewhere: Mapping[cst.SimpleStatementLine, Sequence[NewImport]],
) -> list[Sequence[cst.SimpleStatementLine]]:
    """The imports that change, in order: the trainer's section, others with classes that are made, and single ones."""
    blocks = [section] if section else []
    for statement in sorted(gone, key=lambda each: module.span(each)[0]):
        if any(statement in block for block in blocks):
            continue
        run = _section(module, statement) if statement in elsewhere and is_top(module, statement) else []
        start, end = (module.span(run[0])[0], module.span(run[-1])[1]) if run else (0, 0)
        is_free = not any(edit.start < end and start < edit.end for edit in edits)
        blocks.append(run if len(run) > 1 and is_free and not any(each in section for each in run) else [statement])
    return sorted(blocks, key=lambda block: module.span(block[0])[0])


def _top_edit(module: Module, wanted: Sequence[NewImport]) -> Edit:
    """New imports in front of a file's first statement, behind its docstring and what it takes `from __future__`."""
    groups: list[list[NewImport]] = [[], [], []]
    for item in wanted:
        root = item.module.split(".")[0]
        groups[2 if root in OURS else 0 if root in sys.stdlib_module_names else 1].append(item)
    lines = [
        module.newline.join(line.render("", module.newline, module.indent) for line in _merged(group))
        for group in groups
        if group
    ]
    text = f"{module.newline}{module.newline}".join(lines)
    offset = first_place(module)
    if offset == len(module.text):
        text = f"{module.newline}{text}{module.newline}"
    else:
        text = f"{text}{module.newline}{module.newline}"
    line, column = module.line_column(offset)
    return Edit(offset, offset, text, RULE, "the libraries that the port uses", line, column)


def _aliases_to_drop(
    module: Module, edits: Sequence[Edit], new: Sequence[NewImport], moved: Mapping[str, str], plan: ImportPlan
) -> tuple[dict[cst.SimpleStatementLine, list[cst.ImportAlias]], dict[cst.SimpleStatementLine, list[NewImport]]]:
    """Aliases that go, by statement, and for the moved ones the imports that take their place."""
    spans, absent = Spans((edit.start, edit.end) for edit in edits), absent_packages(module)
    roots = {item.bound: item.module.split(".", 1)[0] for item in new}
    written = " ".join([*module.memory.get(PASSED_ON, ()), *(names_in(edit.new) for edit in edits)])
    gone: dict[cst.SimpleStatementLine, list[cst.ImportAlias]] = {}
    elsewhere: dict[cst.SimpleStatementLine, list[NewImport]] = {}
    for node in module.parents:
        if not isinstance(node, cst.SimpleStatementLine):
            continue
        if len(node.body) != 1:
            plan.edits += shared_edits(module, node, edits, written, plan.still_used)
            continue
        for alias in aliases_of(node):
            name = alias_name(alias)
            scope = module.scope(node.body[0])
            uses = module.references(name, scope)
            left = [use for use in uses if module.span(use)[0] not in spans]
            if not any(is_behind(module, use, node) for use in left):
                left = []  # another import of the name, above this one, is theirs
            root = root_of(node.body[0], alias)
            source = next((b.qualified for b in scope.bindings.get(name, ()) if b.node is node.body[0]), "")
            target = moved.get(flatten(source, module.flat))
            # What is written means a new import of that name: accelerate's `logging` gives way to Python's.
            taken = target is None and roots.get(name, root) != root
            named = not taken and re.search(rf"(?<![\w.]){re.escape(name)}\b(?!=[^=])", written) is not None
            needed = left or named
            if needed and target is not None:
                gone.setdefault(node, []).append(alias)
                original = source.rsplit(".", 1)[-1]
                elsewhere.setdefault(node, []).append(NewImport(target, original, name if name != original else ""))
            elif needed:
                library = needed_by(module, node.body[0], alias, left) or root
                if library in absent and not is_dead(module, node):
                    plan.still_used.setdefault(library, module.location(left[0] if left else node)[0])
                    if module.parents[node] is module.tree:
                        plan.imported.setdefault(library, module.location(node)[0])
            elif uses or (
                is_not_there(module, needed_by(module, node.body[0], alias, ()) or root, source)
                and not is_probe(module, node)
            ):
                gone.setdefault(node, []).append(alias)
            elif root in absent and module.span(node)[0] not in spans:
                plan.asked_for.setdefault(root, module.location(node)[0])
    return gone, elsewhere


def _section(module: Module, anchor: cst.CSTNode) -> list[cst.SimpleStatementLine]:
    """The import statements around `anchor` that only blank lines part; none in a class, whose methods wouldn't see
    what is imported there.
    """
    if isinstance(module.scope(anchor).node, cst.ClassDef):
        return []
    body = getattr(module.parents[anchor], "body", ())
    siblings = list(body)
    if anchor not in siblings or not _plain_import(anchor):
        return []
    index = siblings.index(anchor)
    first = last = index
    while first > 0 and _plain_import(siblings[first - 1]) and not _comments(siblings[first]):
        first -= 1
    while last + 1 < len(siblings) and _plain_import(siblings[last + 1]) and not _comments(siblings[last + 1]):
        last += 1
    return siblings[first : last + 1]


def _plain_import(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return False
    inner = node.body[0]
    if isinstance(inner, cst.ImportFrom) and isinstance(inner.module, cst.Name) and inner.module.value == "__future__":
        return False
    return isinstance(inner, cst.Import | cst.ImportFrom)


def _comments(node: cst.SimpleStatementLine) -> bool:
    return any(line.comment is not None for line in node.leading_lines)


def _still_bound(
    module: Module,
    gone: dict[cst.SimpleStatementLine, list[cst.ImportAlias]],
    section: Sequence[cst.CSTNode],
    edits: Sequence[Edit],
) -> set[tuple[str, str]]:
    """(module, clause) of the imports that stay in the section, or at the top of the file in front of new code."""
    kept: set[tuple[str, str]] = set()
    lost = {alias for aliases in gone.values() for alias in aliases}
    for statement in (*section, *module.tree.body):
        for alias in aliases_of(statement):
            is_late = statement not in section and _is_late(module, statement, alias_name(alias), edits)
            if alias not in lost and not is_late:
                kept.add((module_of(module, first_of(statement), alias), module.code(alias).rstrip(", ")))
    return kept


def _is_late(module: Module, statement: cst.CSTNode, name: str, edits: Sequence[Edit]) -> bool:
    """Whether new code at the top of the file uses a name in front of its import: an earlier cell of a notebook."""
    start, word = module.span(statement)[0], re.compile(rf"(?<![\w.]){re.escape(name)}\b")
    users = [edit.start for edit in edits if edit.start < start and word.search(edit.new)]
    if not users:
        return False
    functions = [module.span(node) for node in module.parents if isinstance(node, cst.FunctionDef)]
    return any(not within(user, functions) for user in users)


def _shrunk(
    module: Module,
    statement: cst.SimpleStatementLine,
    gone: Sequence[cst.ImportAlias],
    plain: Sequence[NewImport],
    versioned: Sequence[str],
    *moved: NewImport,
) -> Edit:
    """A statement without the aliases that went; in front of it the imports of what `moved`, and what makes classes."""
    start, end = module.span(statement)
    line, column = module.location(statement)
    kept = [alias for alias in aliases_of(statement) if alias not in gone]
    names = ", ".join(alias_name(alias) for alias in gone)
    reason = f"{names}: imported above" if moved else f"nothing uses {names} any more"
    indent = indentation(module.text, start)
    new_lines = [*(line.render(indent, module.newline, module.indent) for line in _merged(plain)), *versioned]
    if new_lines:
        if kept:
            new_lines.append(_line_of(module, statement, kept).render(indent, module.newline, module.indent))
        text = f"{module.newline}{indent}".join(new_lines)
        moved_names = ", ".join(dict.fromkeys(item.bound for item in moved))
        reason = f"{moved_names}: the same fields, flags and defaults without torch"
        return Edit(start, module.span(statement.body[0])[1], text, RULE, reason, line, column)
    if not kept:
        if _alone_in_block(module, statement) and not isinstance(_holder(module, statement), cst.Try):
            return Edit(start, end, "pass", RULE, reason, line, column)
        begin, stop = whole_lines(module.text, start, end)
        return Edit(begin, stop, "", RULE, reason, line, column)
    new = _line_of(module, statement, kept).render(indent, module.newline, module.indent)
    return Edit(start, module.span(statement.body[0])[1], new, RULE, reason, line, column)


def _merged(items: Sequence[NewImport]) -> list[ImportLine]:
    """One line a module."""
    lines: dict[str, ImportLine] = {}
    for item in items:
        lines.setdefault(item.module, ImportLine(item.module, [], not item.name)).clauses.append(item.clause)
    return list(lines.values())


def _alone_in_block(module: Module, statement: cst.CSTNode) -> bool:
    parent = module.parents[statement]
    return isinstance(parent, cst.IndentedBlock) and len(parent.body) == 1


def _holder(module: Module, statement: cst.CSTNode) -> cst.CSTNode:
    """What has the block of a statement, which `without_empty_blocks` takes out with it or gives a `pass`."""
    return module.parents[module.parents[statement]]


def _line_of(module: Module, statement: cst.CSTNode, kept: Sequence[cst.ImportAlias]) -> ImportLine:
    clauses = [module.code(alias).rstrip(", \t") for alias in kept]
    plain = isinstance(statement.body[0], cst.Import)  # type: ignore[attr-defined]
    if not kept:  # from module import *
        node = statement.body[0]  # type: ignore[attr-defined]
        return ImportLine(module.code(node.module) if node.module is not None else ".", ["*"], False)
    named = module_of(module, first_of(statement), kept[0])
    return ImportLine(named, [re.sub(r",\s*$", "", clause) for clause in clauses], plain)


def _section_edit(
    module: Module,
    section: Sequence[cst.SimpleStatementLine],
    gone: dict[cst.SimpleStatementLine, list[cst.ImportAlias]],
    wanted: Sequence[NewImport],
    statements: Sequence[str],
) -> Edit | None:
    if not section or (not wanted and not any(statement in gone for statement in section)):
        return None
    groups: list[list[ImportLine]] = [[]]
    for index, statement in enumerate(section):
        if index and any(line.comment is None for line in statement.leading_lines):
            groups.append([])
        lost = gone.get(statement, [])
        kept = [alias for alias in aliases_of(statement) if alias not in lost]
        line = _line_of(module, statement, aliases_of(statement))
        if statement in gone and not kept:
            groups[-1].append(ImportLine(line.module, [], line.plain, "", len(groups)))
            continue
        if lost:
            line = _line_of(module, statement, kept)
        else:
            line.text = _statement_text(module, statement)
        groups[-1].append(line)
    original = [list(group) for group in groups]
    home = _third_party_group(original, facts_of(module))
    sorted_before = [_is_sorted(group) for group in original]
    for index, group in enumerate(groups):
        groups[index] = [line for line in group if line.text != ""]
    ours = [item for item in wanted if item.module.split(".")[0] in OURS]
    standard = [item for item in wanted if item.module.split(".")[0] in sys.stdlib_module_names]
    theirs = [item for item in wanted if item not in ours and item not in standard]
    first = next((i for i, group in enumerate(original) if _is_standard(group)), None)
    mixed = first is None and any(_is_standard([line]) for line in original[home])
    _add(groups[home], [*standard, *theirs] if mixed else theirs, sorted_before[home])
    if first is not None:
        _add(groups[first], standard, sorted_before[first])
    elif standard and not mixed:
        groups.insert(0, [])
        home += 1
        _add(groups[0], standard, True)
    if ours:
        groups.insert(home + 1, [])
        _add(groups[home + 1], ours, True)
    start = module.span(section[0])[0]
    stop = module.span(section[-1].body[-1])[1]
    whole = len(gone.get(section[-1], ())) in (0, len(aliases_of(section[-1])))  # else its comment stays behind it
    if section[-1].trailing_whitespace.comment is not None and whole:
        stop = module.span(section[-1])[0] + len(_statement_text(module, section[-1]))
    indent = indentation(module.text, start)
    rendered = [
        f"{module.newline}{indent}".join(line.render(indent, module.newline, module.indent) for line in group)
        for group in groups
        if group
    ]
    line_number, column = module.line_column(start)
    text = f"{module.newline}{module.newline}{indent}".join([*rendered, *statements])
    ends = ours and not any(groups[home + 2 :])
    if ends and re.match(rf"[^\r\n]*(\r\n|\r|\n){indent}[^\s]", module.text[stop:]):
        text += module.newline  # what followed the imports at once would stand in the runtime's group
    return Edit(start, stop, text, RULE, "the libraries that the port uses", line_number, column)


def _statement_text(module: Module, statement: cst.SimpleStatementLine) -> str:
    start = module.span(statement)[0]
    end = module.span(statement.body[-1])[1]
    rest = re.compile(r"[^\r\n]*").match(module.text, end)
    return module.text[start : rest.end() if rest else end].rstrip()


def _is_sorted(group: Sequence[ImportLine]) -> bool:
    keys = [line.key[:2] for line in group]
    return keys == sorted(keys)


def _third_party_group(groups: Sequence[Sequence[ImportLine]], facts: Facts) -> int:
    """The group of imports that new ones join: where the trainer's library stands beside another, else another does."""
    known = {*facts.beside_training, *facts.language_models}
    trainers = {*facts.all_trainers_read} - {*facts.rewrites_trainers} - known
    of_groups = [{line.module.split(".")[0] for line in group} for group in groups]
    both = [bool(libraries & trainers and libraries & known) for libraries in of_groups]
    others, any_ = ([bool(libraries & names) for libraries in of_groups] for names in (known, known | trainers))
    return next((found.index(True) for found in (both, others, any_) if True in found), len(groups) - 1)


def _is_standard(group: Sequence[ImportLine]) -> bool:
    return bool(group) and all(line.module.split(".")[0] in sys.stdlib_module_names for line in group)


def _add(group: list[ImportLine], wanted: Sequence[NewImport], in_order: bool) -> None:
    for item in wanted:
        if item.name:
            same = next((line for line in group if not line.plain and line.module == item.module), None)
            if same is not None:
                same.clauses.append(item.clause)
                same.text = None
                continue
            group.append(ImportLine(item.module, [item.clause], False))
        else:
            group.append(ImportLine(item.module, [item.clause], True))
    if in_order:
        group.sort(key=lambda line: line.key)

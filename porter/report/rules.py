"""Rules on a terminal: the list, one rule's page, and how a pack's cases went."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from ..errors import InputError
from .terminal import console

if TYPE_CHECKING:
    from ..engine.cases import CaseResult
    from ..engine.packs import Pack


def rule_rows(packs: Sequence[Pack]) -> list[dict[str, Any]]:
    """`{id, title, pack, version, matches, file}` of every rule, by pack and id."""
    return [
        {
            "id": rule.id,
            "title": rule.title,
            "pack": pack.name,
            "version": pack.version,
            "matches": list(matches(rule)),
            "file": str(rule.path),
        }
        for pack in packs
        for rule in sorted(pack.every_rule, key=lambda rule: rule.id)
    ]


def matches(rule: Any) -> tuple[str, ...]:
    """The resolved names that a rule of any kind looks for."""
    table = getattr(rule, "table", None)
    return tuple(rule.matches) if table is None else (table.class_name,)


def show_rows(packs: Sequence[Pack], *, no_color: bool = False) -> None:
    """Print the list of rules."""
    out = console(no_color=no_color)
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("rule", "pack", "what it does"):
        table.add_column(name, overflow="fold", no_wrap=name != "what it does")
    for row in rule_rows(packs):
        table.add_row(Text(row["id"], style="bold magenta"), Text(row["pack"]), Text(row["title"]))
    out.print(table)


def show_rule(packs: Sequence[Pack], name: str, *, no_color: bool = False) -> None:
    """Print the page of the rule with id `name`; InputError names similar ids when there is none."""
    found = {rule.id: (pack, rule) for pack in packs for rule in pack.every_rule}
    if name.upper() not in found and name not in found:
        close = get_close_matches(name.upper(), found, n=3, cutoff=0.5)
        fix = f"similar: {', '.join(close)}" if close else "`tpu-port rules list` names them all"
        raise InputError(f"there is no rule {name!r}", fix=fix)
    pack, rule = found.get(name) or found[name.upper()]
    out = console(no_color=no_color)
    out.print(Text(f"{rule.id}  {rule.title}", style="bold"))
    out.print(Text(f"pack {pack.name} {pack.version}, {rule.path}", style="dim"), soft_wrap=True)
    if matches(rule):
        out.print(Text(f"matches {', '.join(matches(rule))}", style="dim"))
    out.print()
    out.print(Markdown(rule.doc, code_theme="ansi_dark"))


def show_cases(path: Path, results: Sequence[CaseResult], *, no_color: bool = False) -> int:
    """Print how each case went; 0 when all passed, 1 when one failed. InputError when the pack has no case."""
    if not results:
        raise InputError("the pack has no cases", path, fix="add cases/NAME.py and what it becomes, cases/NAME.out.py")
    out = console(no_color=no_color)
    for result in results:
        mark = Text("passed  " if result.passed else "FAILED  ", style="green" if result.passed else "bold red")
        out.print(mark.append(result.name, style="default not bold"))
        if not result.passed:
            out.out(result.detail)
    failed = sum(not result.passed for result in results)
    out.print(f"{len(results)} cases, {failed} failed" if failed else f"{len(results)} cases passed")
    return 1 if failed else 0

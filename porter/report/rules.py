"""Rules on a terminal: the list, one rule's page, and how a pack's cases went."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from ..errors import InputError
from ..recipe import Field
from .terminal import console, field_table, show

if TYPE_CHECKING:
    from ..engine.packs.pack import Pack
    from ..front.cases import CaseResult

SECTION = re.compile(r"\n(What it does|Why|Example|Use instead|Safety|References): *")
SHOWN_NAMES = 2
SHOWN_LINES = 8  # of what a case adds and takes


def rule_rows(packs: Sequence[Pack]) -> list[dict[str, Any]]:
    """`{id, title, pack, version, matches, file}` of every rule, by pack and id."""
    return [
        {
            "id": rule.id,
            "title": headline(rule),
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
    return tuple(rule.claims) if table is None else tuple(table.names)


def headline(rule: Any) -> str:
    """A rule's title; a rewrite's has its first names only."""
    names = matches(rule)
    reason = getattr(rule, "reason", None)
    if reason is None:
        return str(rule.title)
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"{', '.join(names[:SHOWN_NAMES])}{more}: {reason}"


def page(rule: Any) -> str:
    """A rule's documentation as Markdown: each of its short sections is a paragraph with a bold head."""
    text = rule.doc.removeprefix(rule.title)  # it stands above the page
    return re.sub(r"\n{3,}", "\n\n", SECTION.sub(r"\n\n**\1:** ", text)).strip()


def cases(rule: Any) -> str:
    """As Markdown what the cases of a few lines that name a rule have, and which lines their ports have for it."""
    from ..front.fragments import read_fragments

    folder = next((each / "cases" for each in Path(rule.path).parents if (each / "pack.toml").is_file()), None)
    found = []
    for file in sorted(folder.glob("*.toml")) if folder is not None else ():
        data = read_fragments(file)[0]
        if data.get("rule") == rule.id:
            found.append(f"**Case** `cases/{file.name}`:\n\n```\n{_given(data)}\n```\n\n{_becomes(data)}")
    return "\n\n".join(found)


def _given(data: Mapping[str, Any]) -> str:
    """What a case's script has beside the standard one, or what stands in it instead of another case's."""
    if "of" in data:
        return "\n".join(f"-{old}\n+{new}" for old, new in data["swaps"])
    kind = data.get("kind", "SFT")
    calls = {"model": "from_pretrained", "config": f"{kind}Config", "trainer": f"{kind}Trainer"}
    parts = [
        f"{calls[name]}(..., {text})" if name in calls else text
        for name in ("imports", "setup", *calls, "behind")
        if (text := str(data.get(name, "")).strip("\n"))
    ]
    return "\n".join(parts)


def _becomes(data: Mapping[str, Any]) -> str:
    adds, takes = (str(data.get(name, "")).strip("\n").splitlines() for name in ("adds", "takes"))
    more = [f"-{line}" for line in takes if line not in adds] + [f"+{line}" for line in adds if line not in takes]
    if not more:
        return "Its lines go, or stand as they stood."
    left = ["..."] if len(more) > SHOWN_LINES else []
    return "\n".join(["In the port:", "", "```diff", *more[:SHOWN_LINES], *left, "```"])


def show_rows(packs: Sequence[Pack], *, no_color: bool = False) -> None:
    """Print the list of rules."""
    out = console(no_color=no_color)
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("rule", "pack", "what it does"):
        table.add_column(name, overflow="fold", no_wrap=name != "what it does")
    for row in rule_rows(packs):
        table.add_row(Text(row["id"], style="bold magenta"), Text(row["pack"]), Text(row["title"]))
    show(table, out)


def show_rule(packs: Sequence[Pack], name: str, *, no_color: bool = False) -> None:
    """Print the page of the rule with id `name`; InputError names similar ids when there is none."""
    found = {rule.id: (pack, rule) for pack in packs for rule in pack.every_rule}
    if name.upper() not in found and name not in found:
        close = get_close_matches(name.upper(), found, n=3, cutoff=0.5)
        fix = f"similar: {', '.join(close)}" if close else "`tpu-port rules list` names them all"
        raise InputError(f"there is no rule {name!r}", fix=fix)
    pack, rule = found.get(name) or found[name.upper()]
    out = console(no_color=no_color)
    show(Text(f"{rule.id}  {headline(rule)}", style="bold"), out)
    out.out(f"pack {pack.name} {pack.version}, {rule.path}", style="dim")
    if names := matches(rule):
        show(Text(f"matches {', '.join(names)}", style="dim"), out)
    out.print()
    show(Markdown("\n\n".join(filter(None, (page(rule), cases(rule)))), code_theme="ansi_dark"), out)
    if table := getattr(rule, "table", None):
        out.print()
        rows = [
            Field(row.name, row.default or "", row.fate, row.target, row.reason, rule.id, 0, 0)
            for row in table.rows().values()
        ]
        show(field_table(rows, out.width), out)


def show_cases(path: Path, results: Sequence[CaseResult], *, no_color: bool = False) -> int:
    """Print how each case went; 0 when all passed, 1 when one failed. InputError when the pack has no case."""
    if not results:
        raise InputError(
            "the pack has no cases", path, fix="add cases/NAME/before.py and what it becomes, cases/NAME/after.py"
        )
    out = console(no_color=no_color)
    for result in results:
        mark = Text("passed  " if result.passed else "FAILED  ", style="green" if result.passed else "bold red")
        out.print(mark.append(result.name, style="default not bold"))
        if not result.passed:
            out.out(result.detail)
    failed = sum(not result.passed for result in results)
    out.print(f"{len(results)} cases, {failed} failed" if failed else f"{len(results)} cases passed")
    return 1 if failed else 0

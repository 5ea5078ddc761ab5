"""`tpu-port rules`: list the rules of all packs, show one, test a pack's cases, start a new pack."""

from __future__ import annotations

from pathlib import Path

import click

from .say import say

PATH = click.Path(path_type=Path)
RULES = click.option("--rules", type=PATH, multiple=True, metavar="PATH", help="A further pack; may be repeated.")
NO_COLOR = click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR=1).")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("rules", no_args_is_help=True)
@click.help_option("-h", "--help")
def command() -> None:
    """List, show, test and start rules and packs of rules."""


@command.command("list")
@RULES
@JSON
@NO_COLOR
@click.help_option("-h", "--help")
def list_rules(rules: tuple[Path, ...], as_json: bool, no_color: bool) -> int:
    """Every rule of every pack: its id, what it does, and its pack."""
    from ..engine.packs.engine_rules import engine_pack
    from ..engine.packs.packs import load_packs
    from ..front.project import installed_packs, read_project
    from ..front.trust import allowed_packs
    from ..report.rules import rule_rows, show_rows

    packs = (engine_pack(), *load_packs((*rules, *allowed_packs(read_project(Path.cwd()), rules), *installed_packs())))
    if as_json:
        from ..report.json import to_text

        say(to_text({"rules": rule_rows(packs)}))
    else:
        show_rows(packs, no_color=no_color)
    return 0


@command.command("show")
@click.argument("rule")
@RULES
@NO_COLOR
@click.help_option("-h", "--help")
def show(rule: str, rules: tuple[Path, ...], no_color: bool) -> int:
    """The page of one RULE, such as TP112: what it does, why, and the calls it matches."""
    from ..engine.packs.engine_rules import engine_pack
    from ..engine.packs.packs import load_packs
    from ..front.project import installed_packs, read_project
    from ..front.trust import allowed_packs
    from ..report.rules import show_rule

    packs = (engine_pack(), *load_packs((*rules, *allowed_packs(read_project(Path.cwd()), rules), *installed_packs())))
    show_rule(packs, rule, no_color=no_color)
    return 0


@command.command("test")
@click.argument("path", type=PATH)
@click.option("--update", is_flag=True, help="First write each case's after.py as it is ported now, for review.")
@NO_COLOR
@click.help_option("-h", "--help")
def test(path: Path, update: bool, no_color: bool) -> int:
    """Port every case of the pack at PATH and compare with what it expects."""
    from ..front.cases import run_cases, update_cases
    from ..report.rules import show_cases

    for file in update_cases(path) if update else ():
        say(f"Wrote {file}")

    return show_cases(path, run_cases(path), no_color=no_color)


@command.command("new")
@click.argument("path", type=PATH)
@click.help_option("-h", "--help")
def new(path: Path) -> int:
    """Start a pack at PATH: a table, a rule and cases that pass `rules test` as they are."""
    from ..front.scaffold import new_pack

    for file in new_pack(path):
        say(f"Wrote {file}")
    say(f"Try it: tpu-port rules test {path}")
    return 0


@command.command("trust")
@click.argument("path", type=PATH, default=Path("."))
@click.help_option("-h", "--help")
def trust(path: Path) -> int:
    """Let the packs that the pyproject.toml of folder PATH names (or the pack at PATH) run their Python rules.

    Each is remembered as it is now, outside the folder; one that changes has to be trusted again.
    """
    from ..front.trust import memory, packs_of
    from ..front.trust import trust as remember

    for pack, text in remember(packs_of(path)).items():
        say(f"Trusted {pack} (sha256 {text[:16]})")
    say(f"Remembered in {memory()}")
    return 0

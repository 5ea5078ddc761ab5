"""What packs' Python rules read: `read(site, reading)` yields what a call, a class or a function means for training.

It runs when the trainer, its config and its model are read, before the launch file's settings, which have the last
word. Nothing can be edited yet; a rule that raises has read nothing, and a finding says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...recipe import Field, Finding, Origin, Value, literal_code
from ...source.module import Module
from ..answering.pack_places import definitions, patterned
from ..answering.python_rules import mended, mistake, positional, restored, snapshot
from ..packs.python_rule import SiteRule
from ..receipts.marking import about
from ..script.dead_blocks import is_dead
from ..script.fill_from_tables import table_of
from ..script.sites import Site, read_site
from ..script.training import Training
from ..steps.step import Phase, step


@dataclass(frozen=True)
class Fill:
    """A place of the Recipe and its value: `Fill("batch.per_device", site.argument("rows").value)`."""

    place: str
    value: Value


@dataclass(frozen=True)
class Reading:
    """What a rule may ask while a script is read."""

    module: Module
    trainer: Site | None
    versions: Mapping[str, str]
    _training: Training

    def value(self, place: str) -> Value | None:
        """What the script says of a place so far."""
        return self._training.value(place)

    def known(self, place: str, fallback: Any = None) -> Any:
        """The object at a place, if it is certain."""
        return self._training.known(place, fallback)

    def literal(self, value: object, site: Site) -> Value:
        """A value that the call stands for, as a rule knows it."""
        return Value("literal", literal_code(value), Origin(self.module.path, site.line, site.column, site.rule))


@step(Phase.READ, of="trainer", reads=("script values", "model", "lora"), fills=("pack values",))
def read_packs(porting: Training) -> None:
    """Let the packs' rules say what they read in the script."""
    module = porting.module
    reading = Reading(module, porting.trainer, porting.versions, porting)
    for rule in [
        rule for pack in porting.packs for rule in pack.rules if rule.read and porting.options.active(rule.id)
    ]:
        for site in _sites(module, rule):
            _read(porting, rule, site, reading)


def settle(porting: Training, site: Site) -> None:
    """Let the packs say what a call's table can't, now that its keywords are filled."""
    names = table_of(porting, site).names
    filling = [rule for pack in porting.packs for rule in pack.filling]
    for rule in [rule for rule in filling if any(name in names for name in rule.tables)]:
        if rule.filled is None or (not _is_pack(rule) and not porting.options.active(rule.id)):
            continue
        before = snapshot(porting)
        try:
            rule.filled(site, porting)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            if rule.built_in or os.environ.get("TPU_PORT_TRACEBACK"):
                raise
            restored(porting, before)
            message = f"{mistake(rule, error, rule.filled.__code__.co_firstlineno)}: its keywords are what they say."
            porting.find(rule.id, "error", message, mended(rule), site.line, site.column)


def _is_pack(rule: SiteRule) -> bool:
    """Whether a file belongs to its pack, and to no rule of it that may be left out."""
    return rule.part_of and rule.id == rule.pack


def _sites(module: Module, rule: SiteRule) -> Iterator[Site]:
    names = {match.removesuffix("()"): match for match in rule.matches if not match.startswith("@")}
    for call in module.calls_that(lambda call: module.qualified(call.func) in names) if names else ():
        name = names[module.qualified(call.func) or ""]
        if not is_dead(module, call):
            yield read_site(module, call, "", rule.id, name, positional(rule, name))
    for _, site in (*definitions(module, rule), *patterned(module, rule)):
        yield site


def _read(porting: Training, rule: SiteRule, site: Site, reading: Reading) -> None:
    assert rule.read is not None
    try:
        found = _checked(rule.read(site, reading) or ())
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        if rule.built_in or os.environ.get("TPU_PORT_TRACEBACK"):
            raise
        begins = rule.read.__code__.co_firstlineno if hasattr(rule.read, "__code__") else rule.line
        message = f"{mistake(rule, error, begins)}: what the line says of the training is not read."
        porting.find(rule.id, "error", message, mended(rule), site.line, site.column)
        return
    places = [item.place for item in found if isinstance(item, Fill)]
    for item in found:
        if isinstance(item, Fill):
            porting.fill({item.place: item.value})
        elif isinstance(item, Field):
            porting.fate(item)
            about(porting, item, places)
        else:
            porting.find(item.rule, item.severity, item.message, item.fix, item.line, item.column)


def _checked(items: Iterable[object]) -> list[Fill | Field | Finding]:
    """TypeError for what is neither a value, nor a row of the report, nor a finding."""
    found = []
    for item in items:
        if not isinstance(item, Fill | Field | Finding):
            raise TypeError(f"it yields {item!r}, which is no Fill, Field or Finding")
        found.append(item)
    return found

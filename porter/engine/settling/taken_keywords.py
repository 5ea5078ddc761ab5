"""Keywords of configurations that stay objects in the port: the runtime's class has to take them as the release did."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from ...runtime.facts.argument_fields import is_of_another_day, keywords_of
from ...runtime.facts.field_tables import version_key
from ...text.edit import Edit
from ...text.edits import Spans
from ..packs.said_by_packs import dated_library, loader, newest_of, title_of
from ..script.fill_from_tables import plain_version, table_of
from ..script.porting import Porting
from ..script.sites import Site


def refuse_keywords(porting: Porting, edits: Sequence[Edit], guarded: Collection[int]) -> None:
    """An error for each keyword with which a class of the runtime would stop at the port's start; not for those that
    the lines `guarded` give to the releases that have them."""
    spans = Spans((edit.start, edit.end) for edit in edits)
    library, extended = dated_library(porting.packs), loader(porting.packs).library
    for site in porting.sites:
        for argument in site.arguments if _stays(porting, site, spans) else ():
            name, release = _class_of(porting, site)
            own = plain_version(porting.versions.get(extended, ""))
            another = is_of_another_day(name, release, own)
            known = keywords_of(name, release, own if another else None)
            if known is None or argument.name in known or argument.name.startswith("argument "):
                continue
            row = table_of(porting, site).table.row(argument.name)
            for_some = not argument.certain and (argument.line in guarded or site.line in guarded)
            if row is None or for_some:
                continue  # said where it was read
            of, version = (extended, own) if another else (library, plain_version(porting.versions[library]))
            asked = f"{title_of(porting.packs, of)} {version}"
            text = f"{name}.{argument.name}: {asked} has no such keyword"
            fix = "Name the release that the script was written for with --source-trl, or take it out."
            porting.find(
                site.rule, "error", f"{text}, and the port would stop there.", fix, argument.line, argument.column
            )


def _stays(porting: Porting, site: Site, spans: Spans) -> bool:
    """Whether the call itself is in the port; its name may be spelled anew."""
    if not isinstance(site.node, cst.Call) or site.node not in porting.module.parents:
        return False
    inside = porting.module.span(site.node)[1] - 1
    return inside not in spans


def _class_of(porting: Porting, site: Site) -> tuple[str, str | None]:
    """The runtime's class that a call makes, and the release that it is asked for."""
    name = site.qualified.rpartition(".")[2]
    library = dated_library(porting.packs)
    version, newest = plain_version(porting.versions.get(library, "")), newest_of(porting.packs, library)
    return name, version if version and newest and version_key(version) < version_key(newest) else None

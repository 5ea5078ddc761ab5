"""Keywords of a method's call, `model.save_pretrained(folder, max_shard_size="1GB")`: each has a row of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...recipe import Fate, Field
from .sites import Argument, Site
from .training import Training


def say_keywords(porting: Training, site: Site, fates: Mapping[str, tuple[str, str, str]], *said: str) -> None:
    """A row for every argument of the call but those in `said`: its fate, where it went, and why.

    One that `fates` doesn't know is left to a person, as is one whose fate is `manual`, and what `**settings` holds
    where the file doesn't say.
    """
    method = site.qualified.rsplit(".", 1)[-1].removesuffix("()")
    if site.unknown_keywords:
        message = (
            f"{method}(..., {site.unknown_keywords}): what it holds is not known at port time, and isn't in the port."
        )
        porting.find(site.rule, "error", message, "Name the keywords in the call.", site.line, site.column)
    for argument in site.arguments:
        if argument.name in said:
            continue
        fate, target, reason = fates.get(argument.name, ("manual", "", "the port's call takes no such argument"))
        source = f"{method}.{argument.name}"
        place = argument.line, argument.column
        porting.fate(Field(source, argument.text, cast(Fate, fate), target, reason, site.rule, *place))
        if fate == "manual" and not _is_nothing(argument):
            porting.find(site.rule, "error", f"{source}={argument.text}: {reason}.", "", *place)


def _is_nothing(argument: Argument) -> bool:
    """Whether a keyword is set to what it is without being set."""
    return argument.value.is_literal(None, False)

"""What a step of a pack asks of a trainer that is read: its tables, its sites, where what it is given comes from.

A `Training` holds what was read, docs/packs.md lists what; a `Site` is a call that a table describes. docs/packs.md
documents each name; those that aren't listed here may change with any release.
"""

from __future__ import annotations

from ..engine.draft.findings import NO_FAMILY
from ..engine.receipts.marking import about
from ..engine.script.argument_releases import rewritten_by
from ..engine.script.callback_methods import in_callback
from ..engine.script.fill_from_tables import (
    bindings_of,
    config_table,
    fill_defaults,
    fill_site,
    follow,
    is_given,
    plain_versions,
    short_name,
    table_of,
    tables_by_class,
    tables_of,
)
from ..engine.script.subclasses import BESIDE, HOOKS
from ..engine.script.trainers import is_another, is_behind
from ..engine.script.training import Training, in_reach
from ..engine.script.training import families as family_tables
from ..engine.script.uses_of_training import is_in_reach
from ..engine.script.where_models_come_from import WHERE_FROM, makers
from ..runtime.facts.families import Family, families, read_family

__all__ = [
    "BESIDE",
    "HOOKS",
    "NO_FAMILY",
    "WHERE_FROM",
    "Training",
    "about",
    "bindings_of",
    "config_table",
    "fill_defaults",
    "fill_site",
    "follow",
    "in_callback",
    "in_reach",
    "is_another",
    "is_behind",
    "is_given",
    "is_in_reach",
    "known_families",
    "makers",
    "plain_versions",
    "rewritten_by",
    "short_name",
    "table_of",
    "tables_by_class",
    "tables_of",
]


def known_families(porting: Training) -> tuple[Family, ...]:
    """The families of models that Tunix can compute, those that packs describe among them."""
    return families([read_family(path) for path in family_tables(porting.packs)])

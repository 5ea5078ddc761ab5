"""What a step of a pack asks of a trainer that is read: its tables, its sites, where what it is given comes from.

A `Training` holds what was read, docs/packs.md lists what; a `Site` is a call that a table describes. docs/packs.md
documents each name; those that aren't listed here may change with any release.
"""

from __future__ import annotations

from ..engine.dating.argument_releases import rewritten_by
from ..engine.dating.row_order import shuffling_in
from ..engine.draft.findings import NO_FAMILY, NO_TASK
from ..engine.reading.adapters import passes_over_config
from ..engine.reading.checkpoints.saved_adapters import is_merged_into
from ..engine.reading.kbit_preparation import say_float32_between
from ..engine.reading.precision import launched_as
from ..engine.reading.quantization import when_quantised
from ..engine.receipts.marking import about, also
from ..engine.script.callback_methods import EVENTS, TOKENIZER, in_callback, is_callback, parameters_of, rest_reads
from ..engine.script.config_attributes import said_usually
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
from ..engine.script.following.other_models import (
    OTHER_MODELS,
    OtherModel,
    function_elsewhere,
    made_by,
    made_in,
    of_another_family,
    other_models,
)
from ..engine.script.following.trainers_before import has_anothers_adapters, puts_in_twice, was_trained
from ..engine.script.following.where_models_come_from import WHERE_FROM, is_from_scratch, makers
from ..engine.script.sites import facts_of
from ..engine.script.subclasses import BESIDE, HOOKS
from ..engine.script.trainers import is_another, is_behind, is_given_another
from ..engine.script.training import Training, in_reach
from ..engine.script.training import families as family_tables
from ..engine.script.uses_of_training import is_in_reach
from ..runtime.facts.families import families, first_release_of, read_family
from ..runtime.facts.family import Family
from ..target.statements.checkpoint_sampling import samples_one_prompt
from ..target.statements.evaluation import KINDS as WITH_METRICS
from ..target.statements.evaluation import LOSSES, computes_metrics, evaluation_sets, included, metrics_of, sets_of

__all__ = [
    "BESIDE",
    "EVENTS",
    "HOOKS",
    "LOSSES",
    "NO_FAMILY",
    "NO_TASK",
    "OTHER_MODELS",
    "TOKENIZER",
    "WHERE_FROM",
    "WITH_METRICS",
    "OtherModel",
    "Training",
    "about",
    "also",
    "bindings_of",
    "computes_metrics",
    "config_table",
    "evaluation_sets",
    "facts_of",
    "fill_defaults",
    "fill_site",
    "first_release_of",
    "follow",
    "function_elsewhere",
    "has_anothers_adapters",
    "in_callback",
    "in_reach",
    "included",
    "is_another",
    "is_behind",
    "is_callback",
    "is_from_scratch",
    "is_given",
    "is_given_another",
    "is_in_reach",
    "is_merged_into",
    "known_families",
    "launched_as",
    "made_by",
    "made_in",
    "makers",
    "metrics_of",
    "of_another_family",
    "other_models",
    "parameters_of",
    "passes_over_config",
    "plain_versions",
    "puts_in_twice",
    "rest_reads",
    "rewritten_by",
    "said_usually",
    "samples_one_prompt",
    "say_float32_between",
    "sets_of",
    "short_name",
    "shuffling_in",
    "table_of",
    "tables_by_class",
    "tables_of",
    "was_trained",
    "when_quantised",
]


def known_families(porting: Training) -> tuple[Family, ...]:
    """The families of models that Tunix can compute, those that packs describe among them."""
    return families([read_family(path) for path in family_tables(porting.packs)])

"""What the runtime that ports import takes, for rules that write its calls. docs/packs.md documents each name."""

from __future__ import annotations

from ..runtime.facts.field_tables import FieldTable
from ..runtime.facts.generation_settings import DEFAULTS as GENERATION_DEFAULTS
from ..runtime.facts.generation_settings import IDLE as IDLE_SETTINGS
from ..runtime.facts.generation_settings import OF_FORWARD, PIPELINE_SETTINGS, asks_nothing
from ..runtime.facts.generation_settings import REFUSED as REFUSED_SETTINGS
from ..runtime.facts.releases import release as trl_release
from ..runtime.facts.releases import unsloth_grpo
from ..runtime.facts.releases.habits import OPTIM_ARGS_SINCE, reads_optim_args
from ..runtime.facts.releases.lines import lines_of as trl_lines
from ..runtime.facts.releases.mistral_means import NAMED_MULTIMODAL
from ..runtime.rows.unsloth_templates import MAPPED as UNSLOTH_MAPPED
from ..runtime.rows.unsloth_templates import TEMPLATES as UNSLOTH_TEMPLATES
from ..runtime.settings.post_init import OF_TRL as CONFIGS_OF_TRL
from ..runtime.settings.unsloth_defaults import unsloth_beside, unsloth_defaults, unsloth_on

__all__ = [
    "CONFIGS_OF_TRL",
    "GENERATION_DEFAULTS",
    "IDLE_SETTINGS",
    "NAMED_MULTIMODAL",
    "OF_FORWARD",
    "OPTIM_ARGS_SINCE",
    "PIPELINE_SETTINGS",
    "REFUSED_SETTINGS",
    "UNSLOTH_MAPPED",
    "UNSLOTH_TEMPLATES",
    "FieldTable",
    "asks_nothing",
    "reads_optim_args",
    "trl_lines",
    "trl_release",
    "unsloth_beside",
    "unsloth_defaults",
    "unsloth_grpo",
    "unsloth_on",
]

"""What a step asks of launch files: their settings, and a config of DeepSpeed that the arguments name.

docs/packs.md documents each name; those that aren't listed here may change with any release.
"""

from __future__ import annotations

from ..engine.dating.row_order import accelerate_beside
from ..errors import InputError
from ..recipe import literal_code
from ..runtime.settings.zero_config import (
    ADAMW,
    EQUAL,
    SCHEDULES,
    SHAPES,
    accumulation_left_out,
    refused_settings,
    same,
)
from ..source.launch.deepspeed import CONFIG_FILE, TABLE, from_dict, read_deepspeed
from ..source.launch.launch_config import Setting, beside
from ..source.launch.settings import INLINE

__all__ = [
    "ADAMW",
    "CONFIG_FILE",
    "EQUAL",
    "INLINE",
    "SCHEDULES",
    "SHAPES",
    "TABLE",
    "InputError",
    "Setting",
    "accelerate_beside",
    "accumulation_left_out",
    "beside",
    "from_dict",
    "literal_code",
    "read_deepspeed",
    "refused_settings",
    "same",
]

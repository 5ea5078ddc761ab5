"""DeepSpeed's JSON: its settings by dotted name (`zero_optimization.stage`), with the line each stands on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import LARGEST_SETTINGS, read_file
from ...runtime.settings.zero_config import leaves
from .settings import Setting

DEEPSPEED = "DEEPSPEED"
TABLE = "accelerate.deepspeed_config"
CONFIG_FILE = "deepspeed_config_file"
# The keys of accelerate's `deepspeed_config` and of its launcher that stand for DeepSpeed's own.
ACCELERATE_NAMES = {
    "zero_stage": "zero_optimization.stage",
    "offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "offload_param_device": "zero_optimization.offload_param.device",
    "zero3_save_16bit_model": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero3_init_flag": "zero_optimization.zero3_init_flag",  # accelerate's own: where a model is made
    "offload_optimizer_nvme_path": "zero_optimization.offload_optimizer.nvme_path",
    "offload_param_nvme_path": "zero_optimization.offload_param.nvme_path",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "gradient_clipping",
}
KNOWN = {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "gradient_accumulation_steps"}
COMMENT = re.compile(r"(?m)^(?:[^\"\n]|\"(?:[^\"\\\n]|\\.)*\")*?(//|/\*|#)")


def read_deepspeed(path: Path, text: str | None = None) -> tuple[Setting, ...]:
    """The settings of a DeepSpeed JSON file. InputError when it is none."""
    try:
        text = read_file(path, LARGEST_SETTINGS).decode("utf-8-sig") if text is None else text
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"can't be read: {said}", path, fix="name a DeepSpeed JSON file") from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        comment = COMMENT.search(text)
        line = text.count("\n", 0, comment.start(1)) + 1 if comment else error.lineno
        said = "it has a comment, which JSON doesn't know and transformers doesn't read" if comment else error.msg
        fix = "take the comments out" if comment else "mend it"
        raise InputError(f"is no JSON: {said}", path, line, None if comment else error.colno, fix) from None
    except ValueError:
        raise InputError("is no JSON: a number is too long", path, fix="mend it") from None
    except RecursionError:
        raise InputError("is no JSON: nested too deeply", path, fix="mend it") from None
    if not isinstance(data, dict) or not KNOWN & data.keys():
        fix = "name the file that deepspeed= or --deepspeed was given"
        raise InputError("is no DeepSpeed config: it sets neither ZeRO nor a batch size", path, fix=fix)
    return tuple(from_dict(data, path, text))


def from_dict(data: dict[str, Any], path: Path, text: str = "") -> Iterator[Setting]:
    """The settings of a DeepSpeed config, from its file's `text` or from the script itself."""
    yield Setting("distributed_type", DEEPSPEED, 1, file=path)
    for names, value in leaves(data):
        name = ".".join(names)
        yield Setting(name, value, _line(text, names), name, TABLE, path)


def _line(text: str, names: tuple[str, ...]) -> int:
    """The line of a key: each part of its name is looked for behind the part before it."""
    offset = 0
    for name in names:
        found = re.compile(rf"\"{re.escape(name)}\"\s*:").search(text, offset)
        if found is None:
            return 1
        offset = found.start()
    return text.count("\n", 0, offset) + 1

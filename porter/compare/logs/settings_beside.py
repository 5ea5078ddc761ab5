"""What lies beside a GPU log and says what the run was asked for: `training_args.bin`, and the adapter's files.

`training_args.bin` is a pickle. It is read without running anything: whatever class it names becomes an empty one. Of
an adapter's weights only the names are read.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import is_file, is_folder, read_file
from .log import number

SETTINGS = (
    "max_grad_norm", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "r", "lora_alpha", "adapted_linears",
)  # fmt: skip
PARAMS = (*SETTINGS, "deepspeed", "deepspeed_plugin", "hf_deepspeed_config")  # of MLflow's
NOTHING = ("", "None", "null")  # None, as trackers write it
LARGEST = 2_000_000  # bytes
MOST_TUPLES = 10_000  # of a pickle
LONGEST = 50_000_000  # of a header: a hundred bytes a tensor


def settings_beside(path: Path) -> dict[str, float]:
    """`SETTINGS` as far as the log's folder, its checkpoints or its saved adapter tell them."""
    folder = path.parent
    checkpoints = [path for path in folder.glob("checkpoint-*") if is_folder(path)]
    places = [folder, *sorted(checkpoints, key=lambda path: path.stat().st_mtime, reverse=True)[:1]]
    found: dict[str, float] = {}
    for place in places:
        for name, read in FILES.items():
            if is_file(place / name):
                found = {**read(place / name), **found}
    return found


def numbers(given: Mapping[str, Any]) -> dict[str, float]:
    """`SETTINGS` among values that may be numbers, or numbers as text (MLflow's)."""
    found = {}
    given = {**given, "max_grad_norm": _clipping(given)}
    for name in SETTINGS:
        try:
            found[name] = number(given[name])
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _adapter(path: Path) -> dict[str, float]:
    try:
        given = json.loads(read_file(path, LARGEST))
    except (OSError, ValueError, RecursionError, InputError):
        return {}
    return numbers(given) if isinstance(given, dict) else {}


def _arguments(path: Path) -> dict[str, float]:
    try:
        with zipfile.ZipFile(io.BytesIO(read_file(path, LARGEST))) as archive:
            name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
            if archive.getinfo(name).file_size > LARGEST:
                return {}
            data = archive.read(name)
        made = _Reader(io.BytesIO(data)).load() if _is_plain(data) else None
    except Exception:  # whatever a broken or hostile file does to a reader
        return {}
    return numbers(_state(made))


def _is_plain(pickled: bytes) -> bool:
    """Whether a pickle is what arguments are: without numbers of a memo that is gigabytes long, and without tuples so
    deep in one another that their hash overflows the stack."""
    tuples = 0
    for code, given, _ in pickletools.genops(pickled):
        tuples += code.name.startswith("TUPLE")
        if tuples > MOST_TUPLES or (code.name.endswith("PUT") and int(given or 0) > len(pickled)):
            return False
    return True


def _clipping(given: Mapping[str, Any]) -> Any:
    """The norm that gradients were clipped to.

    DeepSpeed clips by its own config, which `max_grad_norm` stands in for at "auto" alone; 0 where that config asks for
    nothing, None where the arguments name one that isn't among them.
    """
    plugin, named = _state(given.get("deepspeed_plugin")), given.get("deepspeed")
    made = (_state(each).get("config") for each in (plugin.get("hf_ds_config"), given.get("hf_deepspeed_config")))
    config = next((each for each in (*made, named) if isinstance(each, dict)), None)
    if config is None:
        return None if plugin or named not in (None, *NOTHING) else given.get("max_grad_norm")
    asked = config.get("gradient_clipping", 0.0)
    return given.get("max_grad_norm") if asked == "auto" else asked


def _state(given: Any) -> Mapping[str, Any]:
    return (given.state or {}) if isinstance(given, _Empty) else {}


def _weights(path: Path) -> dict[str, float]:
    """How many linears have an adapter, by the names in a safetensors file's header."""
    try:
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            names = json.loads(file.read(size)) if size <= LONGEST else {}
    except (OSError, ValueError, RecursionError, struct.error):
        return {}
    count = sum(name.endswith(".lora_A.weight") for name in names) if isinstance(names, dict) else 0
    return {"adapted_linears": float(count)} if count else {}


class _Empty:
    """Stands for an object of any class; keeps the state that it was given."""

    state: Mapping[str, Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, dict) else None


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _Empty

    def persistent_load(self, pid: Any) -> Any:
        return None


FILES = {"training_args.bin": _arguments, "adapter_config.json": _adapter, "adapter_model.safetensors": _weights}

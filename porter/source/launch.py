"""accelerate's launch YAML: how many processes ran the source, and what they shared.

FSDP 1 and 2 and plain data parallel are read; each key has a row in `rules/accelerate/tables/launch_config.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError

DATA_PARALLEL = ("NO", "MULTI_GPU", "MULTI_CPU")
KNOWN_TYPES = ("FSDP", *DATA_PARALLEL)


@dataclass(frozen=True)
class Setting:
    """One key of a launch config: its name (`fsdp_config`'s keys without that prefix), value and line."""

    name: str
    value: Any
    line: int


def read_launch_config(path: Path) -> tuple[Setting, ...]:
    """The settings of an accelerate launch YAML. InputError when it is none, or of a kind that isn't ported."""
    import yaml

    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read: {error}", path, fix="name an accelerate YAML") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or "not YAML"
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise InputError(f"is no YAML: {said}", path, line=line, column=column, fix="mend it") from None
    if not isinstance(data, dict) or not ({"distributed_type", "num_processes", "fsdp_config"} & data.keys()):
        raise InputError(
            "is no accelerate launch config: it has neither distributed_type nor num_processes nor fsdp_config",
            path,
            fix="name the YAML that `accelerate launch --config_file` was given",
        )
    kind = str(data.get("distributed_type", "FSDP" if data.get("fsdp_config") else "NO"))
    if kind.split(".")[-1].upper() not in KNOWN_TYPES:
        raise InputError(
            f"is no FSDP launch config: distributed_type is {kind}",
            path,
            line=_line(node, "distributed_type"),
            fix="tpu-port reads FSDP and plain data-parallel configs; for others give --processes N",
        )
    processes = data.get("num_processes", 1)
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise InputError(
            f"num_processes is {processes!r}, not a count",
            path,
            line=_line(node, "num_processes"),
            fix="write a number",
        )
    return tuple(_settings(data, node))


def _settings(data: dict[str, Any], node: Any) -> Iterator[Setting]:
    for name, value in data.items():
        if name == "fsdp_config" and isinstance(value, dict):
            inner = next((v for k, v in node.value if k.value == name), None)
            for key, setting in value.items():
                yield Setting(str(key), setting, _line(inner, key))
        elif name == "fsdp_config" and value is None:
            continue
        else:
            yield Setting(str(name), value, _line(node, name))


def _line(node: Any, key: Any) -> int:
    for name, _ in getattr(node, "value", ()):
        if name.value == str(key):
            return int(name.start_mark.line) + 1
    return 1

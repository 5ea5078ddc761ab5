"""How the source was launched: accelerate's YAML, a DeepSpeed JSON, or the shell script that started it.

Each gives settings, and each setting has a row in a table of role `launch`: `launch_config.toml` for accelerate and
the launchers' own flags, `deepspeed_config.toml` for DeepSpeed's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import LARGEST_SETTINGS, read_file
from ..project.folders import file_in
from .deepspeed import ACCELERATE_NAMES, CONFIG_FILE, DEEPSPEED, read_deepspeed
from .own_launchers import NO_OTHERS, read_own
from .settings import LAUNCH, Setting
from .shell import Launch, names_script, read_launches

DATA_PARALLEL = ("NO", "MULTI_GPU", "MULTI_CPU")
KNOWN_TYPES = ("FSDP", DEEPSPEED, *DATA_PARALLEL)
SHELL = (".sh", ".bash", ".slurm", ".sbatch", ".job")
__all__ = ["Setting", "read_launch_config"]


@dataclass(frozen=True)
class _File:
    path: Path
    data: dict[str, Any]
    node: Any


def read_launch_config(
    path: Path, source: Path | None = None, *, counted: bool = False, others: Mapping[str, Sequence[str]] = NO_OTHERS
) -> tuple[Setting, ...]:
    """The settings of a launch file. InputError when it is none, or of a kind that isn't ported.

    `others` are further launchers: their table, and the keys that only their files have, all of them.

    `source` is the script to port: of a shell script's several launches, its own counts. `counted`: the number of
    processes is known from elsewhere, so a launch that doesn't say it will do.
    """
    try:
        text = read_file(path, LARGEST_SETTINGS).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        fix = "name an accelerate YAML, a DeepSpeed JSON or a launch script"
        raise InputError(f"can't be read: {said}", path, fix=fix) from None
    if others and (own := read_own(path, text, others)) is not None:
        return own
    if path.suffix in SHELL or text.startswith("#!"):
        return tuple(_launched(read_launches(text, path), path, source, counted))
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        return read_deepspeed(path, text)
    return tuple(_accelerate(path, text))


def _launched(launches: list[Launch], path: Path, source: Path | None, counted: bool) -> Iterator[Setting]:
    """The settings of the launch that runs `source`, or else of the only one."""
    named = [launch for launch in launches if source is not None and Path(launch.script).name == source.name]
    own = [each for each in named if source is not None and names_script(each.script, source, path.parent)] or named
    found = own[0] if own else launches[0] if len(launches) == 1 else None
    if found is None:
        scripts = ", ".join(dict.fromkeys(launch.script for launch in launches)) or "none"
        what = f" that runs {source.name}" if source is not None else ""
        message = f"has no launch{what}; it launches {scripts}"
        raise InputError(message, path, fix="name the script that started the GPU run, or give --processes N")
    if found.uncounted is not None and not counted:
        raise found.uncounted
    names = {setting.name for setting in found.settings}
    for setting in found.settings:
        if setting.name == "config_file":
            inner = read_launch_config(beside(path, str(setting.value)))
            yield from (item for item in inner if item.name not in names)
            yield setting
        elif setting.name in (CONFIG_FILE, "--deepspeed") and str(setting.value).endswith(".json"):
            yield setting
            yield from read_deepspeed(beside(path, str(setting.value)))
        else:
            yield setting


def _accelerate(path: Path, text: str) -> Iterator[Setting]:
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _check_growth(node, path)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
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
    file = _File(path, data, node)
    _check_type(file)
    processes = data.get("num_processes", 1)
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        line = _line(node, "num_processes")
        raise InputError(f"num_processes is {processes!r}, not a count", path, line=line, fix="write a number")
    yield from _settings(file)


def _check_type(file: _File) -> None:
    kind = str(file.data.get("distributed_type", "FSDP" if file.data.get("fsdp_config") else "NO"))
    if kind.split(".")[-1].upper() not in KNOWN_TYPES:
        raise InputError(
            f"is no FSDP, DeepSpeed or data-parallel launch config: distributed_type is {kind}",
            file.path,
            line=_line(file.node, "distributed_type"),
            fix="for others give --processes N",
        )


def _settings(file: _File) -> Iterator[Setting]:
    for name, value in file.data.items():
        inner = next((v for k, v in file.node.value if k.value == name), None)
        if name == "fsdp_config" and isinstance(value, dict):
            for key, setting in value.items():
                yield Setting(str(key), setting, _line(inner, key), file=file.path)
        elif name == "deepspeed_config" and isinstance(value, dict):
            for key, setting in value.items():
                row = ACCELERATE_NAMES.get(str(key))
                table = "accelerate.deepspeed_config" if row else LAUNCH
                yield Setting(str(key), setting, _line(inner, key), row or str(key), table, file.path)
                if key == CONFIG_FILE and setting:
                    yield from read_deepspeed(beside(file.path, str(setting)))
        elif name in ("fsdp_config", "deepspeed_config") and value is None:
            continue
        else:
            yield Setting(str(name), value, _line(file.node, name), file=file.path)


def beside(path: Path, name: str) -> Path:
    """The file `name` as seen from the folder of `path` or one above it (launches run in the project's root)."""
    folders = [path.absolute().parent, *path.absolute().parent.parents]
    found = file_in(folders, name)
    if found is None:
        said = name if len(name) <= 120 else f"{name[:117]}..."
        raise InputError(f"names {said}, which is not there", path, fix="put it where the launch finds it")
    return found


def _line(node: Any, key: Any) -> int:
    for name, _ in getattr(node, "value", ()):
        if name.value == str(key):
            return int(name.start_mark.line) + 1
    return 1


LARGEST_YAML = 100_000  # values, counted as often as they stand there


def _check_growth(node: Any, path: Path) -> None:
    """InputError for a YAML whose aliases make it huge, or hold themselves; `yaml` itself is glad to read it."""
    sizes: dict[int, int] = {}

    def size(inner: Any, around: frozenset[int]) -> int:
        if id(inner) in around:
            raise InputError("is no YAML: a value holds itself", path, inner.start_mark.line + 1, fix="mend it")
        if id(inner) not in sizes:
            parts = inner.value if isinstance(inner.value, list) else ()
            every = [item for part in parts for item in (part if isinstance(part, tuple) else (part,))]
            sizes[id(inner)] = 1 + sum(size(item, around | {id(inner)}) for item in every)
        if sizes[id(inner)] > LARGEST_YAML:
            raise InputError("is no launch config: its aliases make it huge", path, fix="write it without aliases")
        return sizes[id(inner)]

    if node is not None:
        size(node, frozenset())

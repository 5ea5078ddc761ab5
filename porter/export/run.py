"""From a checkpoint to what PEFT, transformers and vLLM load; everything is checked before a byte is written."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..runtime.facts import sidecar
from . import model_files
from .adapter import FILES, adapter_bytes, is_interrupted, write_adapter
from .base import INDEX, Base, open_base
from .changes import added, fitting, replaced
from .checkpoint import Checkpoint, open_checkpoint
from .layout import Layout, plan_layout
from .manifest import NAME, job_hash, matches, read_manifest
from .merging import Retained
from .output import check_folder, check_space, check_strangers, holds_only_partials, sync_folder, write_bytes
from .trained import Adapters, Told, has_adapters, read_adapters
from .writing import write_files

# Below this share of a delta left after rounding, a tensor is worth a word.
LITTLE = 0.8
# Files that would be loaded in place of an export, or with it: other weights; beside a whole model an adapter too.
WEIGHTS = ("*.safetensors", "*.bin", "*.index.json")
WHOLE = (*WEIGHTS, "adapter_config.json")


@dataclass(frozen=True)
class Options:
    """What `tpu-port export` was asked. Sizes in bytes; `dtype` by safetensors' name ("BF16")."""

    merged: bool = False
    step: int | None = None
    told: Told = field(default_factory=Told)
    dtype: str | None = None
    max_shard_size: int | None = None
    force: bool = False
    allow_nan: bool = False


@dataclass(frozen=True)
class Exported:
    """What was written. `kind`: "adapter", "merged" or "model" (a full fine-tune).

    `linears`: adapted ones; `rank` and `alpha` as in adapter_config.json. `retained`: tensor → what rounding kept.
    """

    kind: str
    checkpoint: str
    step: int | None
    base: str
    family: str
    output: str | None
    files: tuple[str, ...]
    bytes: int
    seconds: float
    linears: int = 0
    rank: int | None = None
    alpha: float | None = None
    retained: Mapping[str, Retained] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def little(self) -> tuple[str, ...]:
        """Tensors of which rounding kept little, the worst first."""
        low = [(kept.kept, name) for name, kept in self.retained.items() if kept.kept < LITTLE]
        return tuple(name for _, name in sorted(low))

    def unwritten(self) -> Exported:
        """The same, where nothing was to be kept."""
        return replace(self, output=None, files=())


Progress = Callable[[int, int], None]


def export(
    checkpoint: str | Path,
    base: Path,
    output: Path,
    options: Options | None = None,
    progress: Progress = lambda done, total: None,
) -> Exported:
    """Writes a checkpoint of PeftTrainer into the folder `output`: a PEFT adapter, or (merged, full) a whole model.

    `progress` hears the bytes written so far and in all. An interrupted export of a whole model goes on when it is
    called again. InputError says what is wrong with the input before anything is written, or what stopped the writing.
    """
    options = options or Options()
    begin = time.perf_counter()
    with _made_sense_of(checkpoint):
        read = open_checkpoint(checkpoint, options.step)
        table = (read.described or {}).get("family_table")
    with _made_sense_of(base):
        model = open_base(base, table)
    with _made_sense_of(checkpoint):
        notes = _same_base(read, model, options)
        if has_adapters(read):
            adapters = read_adapters(read, model.family, model.config, options.told, allow_nan=options.allow_nan)
    if has_adapters(read):
        notes += adapters.notes
        found = _Job("merged" if options.merged else "adapter", read, model, output, options, adapters)
    else:
        _check_full(read, options)
        found = _Job("model", read, model, output, options, None)
    return found.adapter(begin, notes) if found.kind == "adapter" else found.weights(begin, notes, progress)


@contextmanager
def _made_sense_of(path: str | Path) -> Iterator[None]:
    """What is read is somebody else's: a value of a wrong kind in it is one line, as no list of them is complete."""
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if os.environ.get("TPU_PORT_TRACEBACK"):
            raise
        said = " ".join(str(error).split())[:200]
        fix = "download or write it again; TPU_PORT_TRACEBACK=1 shows where"
        raise InputError(f"no sense can be made of it ({type(error).__name__}: {said})", path, fix=fix) from error


@dataclass(frozen=True)
class _Job:
    kind: str
    checkpoint: Checkpoint
    base: Base
    output: Path
    options: Options
    adapters: Adapters | None

    def adapter(self, begin: float, notes: tuple[str, ...]) -> Exported:
        assert self.adapters is not None
        if self.options.dtype or self.options.max_shard_size:
            raise InputError("--dtype and --max-shard-size are for whole models", fix="an adapter is always float32")
        with _made_sense_of(self.checkpoint.path):
            if self.base.shards:
                added(self.base, self.adapters)  # every linear has its tensor in the base
            else:
                notes += ("the base's folder holds no weights: only its config.json was compared",)
            size = adapter_bytes(self.adapters)
        known = is_interrupted(self.output)
        check_folder(self.output, FILES, self._read_folders(), known=known, force=self.options.force)
        check_strangers(self.output, FILES, WEIGHTS)
        check_space(self.output, size)
        described = (self.checkpoint.described or {}).get("base") or {}
        self._make()
        with _alone(self.output), _made_sense_of(self.checkpoint.path):
            write_adapter(self.adapters, self.base, self.output, described.get("id") or str(self.base.path))
        return self._done(begin, notes, FILES, size, {})

    def weights(self, begin: float, notes: tuple[str, ...], progress: Progress) -> Exported:
        with _made_sense_of(self.checkpoint.path):
            if self.adapters is not None:
                changes, change = added(self.base, self.adapters)
                layout = self._layout(changes, None)
            else:
                changes, change, dtype = replaced(self.base, self.checkpoint)
                layout = self._layout(changes, dtype)
        names = tuple(file.name for file in layout.files)
        beside = model_files.names(self.base)
        asked = {"dtype": self.options.dtype, "max_shard_size": self.options.max_shard_size}
        job = job_hash(self.base, self._trained_hash(), asked)
        all_names = (*names, *beside, INDEX, NAME)
        known = matches(self.output, job) or holds_only_partials(self.output, (NAME,))
        check_folder(self.output, all_names, self._read_folders(), known=known, force=self.options.force)
        check_strangers(self.output, names if layout.index is None else (*names, INDEX), WHOLE)
        manifest = read_manifest(self.output, job, names)
        left = [file for file in layout.files if not manifest.is_done(file.name)]
        check_space(
            self.output, sum(f.size for f in left) - _freed(self.output, left), staged=_largest(self.output, left)
        )
        self._make()
        with _alone(self.output):
            manifest.write()
            write_files(layout.files, manifest, change, said=_Counter(progress, layout.size), check=self.base.check)
            model_files.copy(self.base, self.output, self._config_dtype(layout))
            if layout.index is not None:
                write_bytes(self.output / INDEX, layout.index)
            sync_folder(self.output)
        files = (*names, *beside, *([INDEX] if layout.index is not None else []))
        retained = manifest.retained()
        return self._done(begin, notes, files, layout.size, retained)

    def _layout(self, changes: Mapping[str, str], trained: str | None) -> Layout:
        return plan_layout(
            self.base, changes, dtype=self.options.dtype, trained_dtype=trained,
            max_shard_size=self.options.max_shard_size,
        )  # fmt: skip

    def _trained_hash(self) -> str:
        """A hash of the arrays and how they are applied; of a whole model, of what Orbax says of it."""
        digest = hashlib.sha256()
        if self.adapters is None:
            item = self.checkpoint.folder
            digest.update(f"{self.checkpoint.path} {self.checkpoint.step}".encode())
            for name in ("_METADATA", "../_CHECKPOINT_METADATA"):
                if (item / name).exists():
                    digest.update((item / name).read_bytes())
            return digest.hexdigest()
        for name in sorted(self.adapters.linears):
            b, a = self.adapters.delta(name)
            digest.update(name.encode())
            digest.update(b.data.cast("B"))
            digest.update(a.data.cast("B"))
        return digest.hexdigest()

    def _config_dtype(self, layout: Layout) -> str | None:
        """What config.json has to say, where that isn't what the base's says."""
        trained = fitting(self.base).tensors
        text = {tensor.dtype for name, tensor in self.base.tensors.items() if name in trained}
        made = {piece.goal for file in layout.files for piece in file.pieces if hasattr(piece, "goal")}
        return next(iter(made)) if len(made) == 1 and made != text else None

    def _read_folders(self) -> tuple[Path, ...]:
        return (self.base.path, self.checkpoint.folder)

    def _make(self) -> None:
        try:
            self.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"can't be made: {error.strerror}", self.output, fix="write somewhere else") from error

    def _done(
        self, begin: float, notes: tuple[str, ...], files: tuple[str, ...], size: int, retained: Mapping[str, Retained]
    ) -> Exported:
        spec = self.adapters.spec if self.adapters is not None else None
        return Exported(
            kind=self.kind,
            checkpoint=self.checkpoint.path,
            step=self.checkpoint.step,
            base=str(self.base.path),
            family=self.base.family.name,
            output=str(self.output),
            files=files,
            bytes=size,
            seconds=time.perf_counter() - begin,
            linears=len(self.adapters.linears) if self.adapters is not None else 0,
            rank=spec.r if spec else None,
            alpha=spec.lora_alpha if spec else None,
            retained=retained,
            notes=notes,
        )


class _Counter:
    """Adds up bytes written by several threads."""

    def __init__(self, progress: Progress, total: int) -> None:
        from threading import Lock

        self._progress, self._total, self._done, self._lock = progress, total, 0, Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._done += count
            self._progress(self._done, self._total)


def _same_base(checkpoint: Checkpoint, base: Base, options: Options) -> tuple[str, ...]:
    """InputError when the run's sidecar describes another model than the base, unless forced."""
    trained = (checkpoint.described or {}).get("base")
    if trained is None or trained["config_sha256"] == sidecar.config_hash(base.config):
        return ()
    then, now = sidecar.steady(trained["config"]), sidecar.steady(base.config)
    keys = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
    said = f"its config.json isn't that of the model the run was trained from ({trained['id']}): {', '.join(keys[:8])}"
    if not options.force:
        raise InputError(f"{said} differ", base.path, fix="give that model, or --force if you know that it fits")
    return (f"{said} differ; exported all the same (--force)",)


def _check_full(checkpoint: Checkpoint, options: Options) -> None:
    if (checkpoint.described or {}).get("lora") is not None:
        raise InputError(
            "the run trained adapters, and the checkpoint holds none", checkpoint.path, fix="export another step"
        )
    told = options.told
    if (told.rank, told.alpha, told.targets) != (None, None, None):
        raise InputError(
            "it holds a whole model, no adapters", checkpoint.path, fix="leave out --rank, --alpha and --targets"
        )


def _freed(folder: Path, files: list[Any]) -> int:
    """Bytes that come free when the unfinished and replaced files of these names have been replaced."""
    places = [place for file in files for place in (folder / file.name, folder / f"{file.name}.partial")]
    return sum(place.stat().st_size for place in places if place.is_file())


def _largest(folder: Path, files: list[Any]) -> int:
    """Bytes of the largest file that will stand beside the one it replaces for a while."""
    return max((file.size for file in files if (folder / file.name).exists()), default=0)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """InputError when another export is writing into the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError("another export is writing into it", folder, fix="wait for it") from None
    try:
        yield
    finally:
        os.close(descriptor)

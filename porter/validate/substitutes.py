"""What stands in for the models, datasets and output folders that a script names.

Used in both processes of a validation, so that the two scripts get the same model and the same rows. Nothing
here imports torch or JAX.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .columns import find_columns, made_up_rows, rows_wanted
from .settings import Settings

LARGEST_LOCAL_MODEL = 2 * 2**30  # bytes of weights that two runs on a CPU can bear
LOADERS = {".json": "json", ".jsonl": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".txt": "text"}
WEIGHTS = ("*.safetensors", "*.bin")


class Substitutes:
    """Answers `model`, `output` and `load_dataset` for one process and collects `notes` for the verdict."""

    def __init__(self, settings: Settings, side: str, arguments: list[str]) -> None:
        self.settings = settings
        self.side = side
        self.arguments = arguments
        self.notes: list[str] = []
        self._work = Path(settings.work)

    def note(self, text: str) -> None:
        """Add `text` to the notes, once."""
        if text not in self.notes:
            self.notes.append(text)

    @functools.cache  # noqa: B019 - one object a process
    def model(self, name: str) -> str:
        """The folder to load in place of model `name` (Hub id or folder). ValueError when nothing can stand in."""
        name = str(name)
        written = Path(self.output(name))
        if written.is_dir() and any(written.iterdir()):
            return str(written)
        if str(written) == name or self._work in Path(name).absolute().parents:
            return name
        if self.settings.model:
            self.note(f"{self.settings.model} was loaded for {name}")
            return str(Path(self.settings.model).absolute())
        local = Path(name)
        if local.is_dir():
            size = sum(file.stat().st_size for pattern in WEIGHTS for file in local.glob(pattern))
            if size <= LARGEST_LOCAL_MODEL:
                return name
        folder, family = self._stand_in(name)
        self.note(f"a tiny random {family} model stood in for {name}")
        return folder

    def output(self, path: Any) -> str:
        """Where what a script writes to `path` goes: below the work folder, never to the user's folders."""
        absolute = Path(str(path)).absolute()
        if self._work in absolute.parents:
            return str(absolute)
        return str(self._work / "outputs" / self.side / re.sub(r"[^\w.-]+", "_", str(path)).strip("_")[-100:])

    def saved(self, path: Any) -> Any:
        """Where an adapter is that the script may have written to `path`."""
        written = Path(self.output(path))
        return str(written) if written.is_dir() and any(written.iterdir()) else path

    def load_dataset(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`datasets.load_dataset`, with the user's `--data` or made-up rows where the real data can't be had."""

        @functools.wraps(original)
        def load(*args: Any, **kwargs: Any) -> Any:
            given = dict(zip(("path", "name", "data_dir", "data_files", "split"), args, strict=False)) | kwargs
            asked, split = given.get("data_files") or given.get("path"), given.get("split")
            streaming = kwargs.get("streaming", False)
            if self.settings.data:
                self.note(f"{self.settings.data} was loaded for dataset {asked}")
                return _as_asked(self._own_rows(original), split, streaming)
            try:
                return original(*args, **kwargs)
            except (OSError, ValueError, RuntimeError) as error:
                reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
                rows = self._made_up()
                columns = ", ".join(rows.column_names)
                self.note(f"{len(rows)} made-up rows ({columns}) stood in for dataset {asked} ({reason})")
                return _as_asked(rows, split, streaming)

        return load

    def _own_rows(self, original: Callable[..., Any]) -> Any:
        file = Path(str(self.settings.data))
        loader = LOADERS.get(file.suffix.lower())
        if loader is None:
            raise ValueError(f"--data {file}: expected one of {', '.join(LOADERS)}")
        options = {"sep": "\t"} if file.suffix.lower() == ".tsv" else {}
        return original(loader, data_files=str(file.absolute()), split="train", **options)

    def _made_up(self) -> Any:
        from datasets import Dataset

        cut_selections()
        texts = list(self.settings.sources)
        count = rows_wanted(texts, self.settings.steps * 8)
        return Dataset.from_list(made_up_rows(find_columns(texts, self.arguments), count))

    def _stand_in(self, name: str) -> tuple[str, str]:
        from ..runtime.families import UnknownFamily, find_family

        try:
            config = Path(name) / "config.json"
            family = find_family(model_type=_model_type(config)) if config.exists() else find_family(hub_id=name)
        except UnknownFamily:
            family = None
        if family is None:
            raise ValueError(f"no model at {name!r}, and no known family of that name: give a small one with --model")
        folder = self._work / "stand_in" / re.sub(r"[^\w.-]+", "--", name)
        if not (folder / "finished").exists():
            # In a process of its own: this one may be the port's, which must not import torch.
            words = [sys.executable, "-m", "porter.validate.stand_in", str(folder), name, family.name]
            others = len([*folder.parent.iterdir()]) if folder.parent.is_dir() else 0
            # A teacher with its student's weights would have nothing to teach.
            words += ["--kv-heads", str(self.settings.kv_heads), "--seed", str(others)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ValueError(f"no stand-in for {name}: {done.stderr.strip().splitlines()[-1]}")
        return str(folder), family.name


def patch_loaders(substitutes: Substitutes) -> None:
    """Make datasets and the torch-free classes of transformers load substitutes, in this process."""
    import datasets

    load = substitutes.load_dataset(datasets.load_dataset)
    datasets.load_dataset = load
    sys.modules["datasets.load"].load_dataset = load  # type: ignore[attr-defined]

    import transformers

    for cls in (
        transformers.AutoTokenizer,
        transformers.AutoConfig,
        transformers.AutoProcessor,
        transformers.GenerationConfig,
        transformers.PreTrainedTokenizerBase,
        transformers.PreTrainedConfig,
    ):
        patch_from_pretrained(cls, substitutes)
    patch_save_pretrained(transformers.PreTrainedTokenizerBase, substitutes)
    patch_save_pretrained(transformers.PreTrainedConfig, substitutes)


def patch_from_pretrained(
    cls: Any,
    substitutes: Substitutes,
    adjust: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    finish: Callable[[Any], None] | None = None,
) -> None:
    """`cls.from_pretrained(name, ...)` loads `substitutes.model(name)`.

    `adjust` changes its keywords, `finish` what it loaded.
    """
    original = cls.__dict__["from_pretrained"].__func__

    @classmethod  # type: ignore[misc]
    @functools.wraps(original)
    def from_pretrained(klass: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("revision", None) not in (None, "main"):
            substitutes.note("the model's revision was not asked for")
        if adjust is not None:
            kwargs = adjust(kwargs)
        loaded = original(klass, substitutes.model(str(name)), *args, **kwargs)
        if finish is not None:
            finish(loaded)
        return loaded

    cls.from_pretrained = from_pretrained


def patch_save_pretrained(cls: Any, substitutes: Substitutes) -> None:
    """`object.save_pretrained(folder)` writes below the work folder."""
    original = cls.save_pretrained

    @functools.wraps(original)
    def save_pretrained(self: Any, folder: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("push_to_hub", None)
        return original(self, substitutes.output(folder), *args, **kwargs)

    cls.save_pretrained = save_pretrained


def cut_selections() -> None:
    """`Dataset.select` leaves out rows that a stand-in doesn't have: scripts select by the size of the real data."""
    from datasets import Dataset

    original = Dataset.select
    if getattr(original, "cut", False):
        return

    @functools.wraps(original)
    def select(self: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
        count = len(self)
        return original(self, [index for index in indices if index < count], *args, **kwargs)

    select.cut = True  # type: ignore[attr-defined]
    Dataset.select = select


def _as_asked(rows: Any, split: Any, streaming: bool) -> Any:
    """`rows` as load_dataset gives them: one dataset for a split, else every usual split; streamed on request."""
    from datasets import DatasetDict, IterableDatasetDict

    if split is not None and not isinstance(split, list):
        return rows.to_iterable_dataset() if streaming else rows
    if split is not None:
        return [rows for _ in split]
    held_out = rows.select(range(min(len(rows), 16)))
    parts = {"train": rows, "test": held_out, "validation": held_out, "eval": held_out}
    if streaming:
        return IterableDatasetDict({name: part.to_iterable_dataset() for name, part in parts.items()})
    return DatasetDict(parts)


def _model_type(config: Path) -> str:
    import json

    return str(json.loads(config.read_text(encoding="utf-8")).get("model_type", ""))

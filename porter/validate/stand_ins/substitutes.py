"""What stands in for the models, datasets and output folders that a script names.

Used in both processes of a validation, so that the two scripts get the same model and the same rows. Nothing
here imports torch or JAX.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from ...runtime.facts.stored_formats import MIRROR
from ..observing.settings import Settings
from ..observing.spelling import by_place
from ..preloading import client as preloading
from .data.healing import mark
from .data.missing_files import MissingFiles
from .data.plan import DataPlan, rows_of, users_frame
from .models.adapter import base_of, make_adapter
from .models.folders import holds_model, lacks_adapter

LOADERS = {".json": "json", ".jsonl": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".txt": "text"}
OF_A_MODEL = ("config.json", "tokenizer_config.json", "tokenizer.json", "adapter_config.json")
HELD_OUT, PACKED = 16, 256  # rows of a split that isn't trained on, and where rows are packed


class Substitutes:
    """Answers `model`, `output` and `load_dataset` for one process and collects `notes` for the verdict."""

    def __init__(self, settings: Settings, side: str, arguments: list[str], folder: Path | None = None) -> None:
        """`folder` is the run's own, below the work folder."""
        self.settings = settings
        self.side = side
        self.arguments = arguments
        self.notes: list[str] = []
        self._work = Path(settings.work)
        self.tiny = self._work / "stand_in"
        self.outside = (folder or self._work) / "outside"
        self.plan = DataPlan(settings, side, arguments)
        self.missing = MissingFiles(self, self.plan)

    @property
    def packs(self) -> bool:
        """Whether the scripts may pack rows: `packing=True`, or one that the run decides."""
        return any(re.search(r"\bpacking\s*[=:]\s*(?!False|false)", text) for text in self.settings.sources)

    def note(self, text: str) -> None:
        """Add `text` to the notes, once."""
        if text not in self.notes:
            self.notes.append(text)

    @functools.cache  # noqa: B019 - one object a process
    def model(self, name: str) -> str:
        """The folder to load in place of model `name` (Hub id or folder). ValueError when nothing can stand in."""
        name = str(name)
        if name in ("", "None"):  # an argument that nobody gave; "" is also the folder that we are in
            return self._standing_in(name)
        written = Path(self.output(name))
        if holds_model(written):
            return str(written)
        local = Path(name)
        if lacks_adapter(local):
            return self._model_with_adapter(local)
        if self.tiny in local.parents:
            return name
        if self.settings.model:
            return self._standing_in(name)
        if any((local / file).is_file() for file in OF_A_MODEL) and holds_model(local):
            return name
        return self._standing_in(name)

    def _standing_in(self, name: str) -> str:
        if self.settings.model:
            self.note(f"{self.settings.model} was loaded for {name or 'a model without a name'}")
            return str(Path(self.settings.model).absolute())
        # A folder of the project has the same name in both scripts' copies of it.
        called = self.missing.name_of(name) if os.path.isabs(name) else name
        folder, family, reason = self._stand_in(called, Path(name, "config.json").absolute())
        self.note(f"a tiny random {family} model stood in for {called or 'a model without a name'}{reason}")
        return folder

    def output(self, path: Any) -> str:
        """Where what a script writes to `path` goes: its own copy, or below the work folder, as the guard has it."""
        absolute = Path(str(path)).absolute()
        if self._work in absolute.parents:
            return str(absolute)
        return str(self.outside / str(absolute).lstrip("/"))

    def adapter(self, path: Any, base: Any, subfolder: str | None = None) -> Any:
        """Where an adapter is: what the script has written, what is there, or one made up for the model in `base`."""
        saved, here = self.saved(path), Path(str(path)).expanduser() / (subfolder or "")
        whole = (here / "adapter_config.json").is_file() and not lacks_adapter(here)
        if saved != path or whole or not Path(str(base)).is_dir():
            return saved
        folder = self._adapter_folder(path)
        made = make_adapter(folder / (subfolder or ""), Path(str(base)), here)
        if not made:
            return path
        self.note(f"a made-up adapter on {' and '.join(made)} stood in for {path}")
        return str(folder)

    def _adapter_folder(self, path: Any) -> Path:
        return self._work / "stand_in_adapter" / (re.sub(r"[^\w.-]+", "--", str(path)) or "unnamed")

    def _model_with_adapter(self, path: Path) -> str:
        """A folder of an adapter, which libraries load with its base: made up, as `path` has the settings alone."""
        base, folder = Path(self.model(base_of(path))), self._adapter_folder(path)
        made = make_adapter(folder, base, path)
        if not made:
            return str(path)
        for file in (*base.glob("*token*"), *base.glob("*.jinja")):
            shutil.copy2(file, folder)
        self.note(f"a made-up adapter on {' and '.join(made)} stood in for {self.missing.name_of(str(path))}")
        return str(folder)

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
                return _as_asked(self._own_rows(original), [], split, streaming)
            kwargs = self._with_files(kwargs)
            if self._are_left_out((given | kwargs).get("data_files")):
                left = OSError("Git LFS has left a pointer in place of a file")
                return _as_asked(*self.made_up(asked, given, left), split, streaming, packs=self.packs)
            try:
                return original(*args, **kwargs)
            except (OSError, ValueError, RuntimeError) as error:
                return _as_asked(*self.made_up(asked, given, error), split, streaming, packs=self.packs)

        return load

    def read_dataset(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`load_from_disk`, `Dataset.from_json` and their kin: a folder or file that isn't there gives made-up rows."""

        @functools.wraps(original)
        def read(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = by_place(original, args, kwargs)
            if not args:
                return original(**kwargs)
            path, *args = args  # type: ignore[assignment]
            if self.settings.data:
                import datasets

                self.note(f"{self.settings.data} was loaded for dataset {path}")
                return self._own_rows(getattr(datasets.load_dataset, "__wrapped__", datasets.load_dataset))
            try:
                if isinstance(path, str) and self.missing.given:
                    path = self.missing.given_for(path) or path
                return original(path, *args, **kwargs)
            except (OSError, ValueError, RuntimeError) as error:
                return self.made_up(path, {"path": path}, error)[0]

        return read

    def made_up(self, asked: Any, given: dict[str, Any], error: Exception) -> tuple[Any, list[str]]:
        """The rows that stand in for a dataset that can't be had, and the names of its splits."""
        from datasets import Dataset

        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        name = "|".join(self._called(given[word]) for word in ("path", "name", "data_files") if given.get(word))
        entry = self.plan.entry(name, self.plan.read_at(users_frame(("datasets",)) or sys._getframe(1)))
        rows = mark(Dataset.from_list(rows_of(entry)), self, self.plan, entry)
        columns = ", ".join(rows.column_names)
        self.note(f"{len(rows)} made-up rows ({columns}) stood in for dataset {asked} ({reason})")
        if self.plan.limit_note:
            self.note(self.plan.limit_note)
        return rows, entry["splits"]

    def _called(self, given: Any) -> str:
        if isinstance(given, dict):
            given = list(given.values())
        parts = given if isinstance(given, list | tuple) else [given]
        flat = [str(inner) for part in parts for inner in (part if isinstance(part, list | tuple) else [part])]
        return ",".join(self.missing.name_of(part) if os.path.isabs(part) else part for part in flat)

    def _with_files(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keywords with the user's own files for `data_files`."""
        files = kwargs.get("data_files")
        if not self.missing.given or not isinstance(files, str):
            return kwargs
        return {**kwargs, "data_files": self.missing.given_for(files) or files}

    def _are_left_out(self, files: Any) -> bool:
        """Whether one of the files of a dataset, as `load_dataset` takes them, is what Git LFS leaves in its place."""
        parts = [*files.values()] if isinstance(files, dict) else files if isinstance(files, list | tuple) else [files]
        flat = [inner for part in parts for inner in (part if isinstance(part, list | tuple) else [part])]
        return any(os.path.isfile(part) and not self.missing.there(str(part)) for part in flat if part)

    def _own_rows(self, original: Callable[..., Any]) -> Any:
        file = Path(str(self.settings.data))
        loader = LOADERS.get(file.suffix.lower())
        if loader is None:
            raise ValueError(f"--data {file}: expected one of {', '.join(LOADERS)}")
        options = {"sep": "\t"} if file.suffix.lower() == ".tsv" else {}
        return original(loader, data_files=str(file.absolute()), split="train", **options)

    def _stand_in(self, name: str, config: Path) -> tuple[str, str, str]:
        """The folder of the tiny model for `name`, its family, and why it is of that family where the id doesn't say.

        `config` is the real model's, where there is one that is too large to train here. A mirror in 4 bits is the
        model that it was made from, which a port loads: both get one stand-in.

        It is made in a process of the tool's own interpreter: this one may be of an older Python, with older libraries,
        or the port's, which must not import torch.
        """
        name = MIRROR.sub("", name)
        folder = self.tiny / (re.sub(r"[^\w.-]+", "--", name) or "unnamed")
        answer = folder / "stand_in.json"
        if not answer.exists():
            asked = {
                "folder": str(folder),
                "name": name,
                "config": str(config) if name else "",
                "family": self.settings.family,
                "texts": list(self.settings.sources),
                "project": self.settings.project,
                "release": metadata.version("transformers"),
                "kv_heads": self.settings.kv_heads,
                # A teacher with its student's weights would have nothing to teach.
                "seed": len([*folder.parent.iterdir()]) if folder.parent.is_dir() else 0,
            }
            code, said = self._made(json.dumps(asked))
            if code:
                raise ValueError((said.strip() or f"no stand-in for {name}").splitlines()[-1])
        made = json.loads(answer.read_text(encoding="utf-8"))
        return str(folder), made["family"], f" ({made['reason']})" if made["reason"] else ""

    def _made(self, asked: str) -> tuple[int, str]:
        """The exit status of making a stand-in, and what was said of it."""
        module, variables = "porter.validate.stand_ins.models.stand_in", _tool_environment()
        if self.settings.preloaded:
            found = preloading.run(self.settings.preloaded, module, asked, variables, str(self._work))
            if found is not None:
                return found
        words = [self.settings.tool_python, "-P", "-m", module]
        done = subprocess.run(words, input=asked, env=variables, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr


def _tool_environment() -> dict[str, str]:
    """Variables for the tool's own interpreter: this package can be imported, and nothing that the source's can."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}
    return kept | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}


def _streamed(rows: Any) -> Any:
    """`rows` as a stream that a script which skips more rows than a stand-in has goes on with."""
    stream, count = rows.to_iterable_dataset(), len(rows)
    skip = stream.skip
    stream.skip = lambda n: skip(n if n < count else count // 4)
    return stream


def _as_asked(rows: Any, splits: list[str], split: Any, streaming: bool, *, packs: bool = False) -> Any:
    """`rows` as load_dataset gives them: one dataset for a split, else `splits` or the usual; streamed on request.

    Of a script that `packs` rows, those that are held out fill a packed one, too: TRL before 0.13 ends without.
    """
    from datasets import DatasetDict, IterableDatasetDict

    if split is not None and not isinstance(split, list):
        return _streamed(rows) if streaming else rows
    if split is not None:
        return [rows for _ in split]
    held_out = rows.select(range(min(len(rows), HELD_OUT if not packs else PACKED)))
    names = splits or ["train", "test", "validation", "eval"]
    parts = {name: rows if index == 0 or "train" in name else held_out for index, name in enumerate(names)}
    if streaming:
        return IterableDatasetDict({name: _streamed(part) for name, part in parts.items()})
    return DatasetDict(parts)

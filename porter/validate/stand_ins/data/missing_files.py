"""Files of data that aren't there are made up below the work folder, and reads of them are led there.

Only what the user's own code opens for reading counts: libraries probe for files that needn't exist. A missing
configuration is never made up, it is named.
"""

from __future__ import annotations

import ast
import builtins
import csv
import functools
import glob
import gzip
import io
import json
import os
import pathlib
import re
import sqlite3
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ...observing.callers import INSTALLED, of_user
from ...observing.spelling import by_place
from .documents import made_up_pdf
from .file_questions import ends_without, ends_without_folder, leaves
from .plan import DOCUMENT, DataPlan, rows_of, users_frame
from .rows import made_up_value

if TYPE_CHECKING:
    from ..substitutes import Substitutes

DATA = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".parquet", ".pdf")
PACKED = ".gz"
FORMS = ("json", "lines", "csv")
DOCUMENTS = 64  # files of one document each
NUMBERED = re.compile(r"made_up_(\d+)")
CONFIGURATION = (".yaml", ".yml", ".toml", ".ini", ".cfg")
OF_PDFS = ("pdfplumber", "pdfminer", "pypdf", "PyPDF2")
THROUGH = (*OF_PDFS, "pathlib", "jsonlines", "codecs", "gzip", "io", "os", "genericpath", "posixpath", "glob", "srsly")
# What else of this package opens a file while the user's code runs reads its own.
HANDING_ON = ("porter.runtime", "porter.validate.stand_ins.data", "porter.validate.observing")
POINTER = b"version https://git-lfs.github.com/spec"
ABSENT = ("FileNotFoundError", "OSError", "IOError")
NAMED_CONFIGURATION = re.compile(r"(config|settings|hparams|params|deepspeed|ds_|zero\d)", re.IGNORECASE)


class MissingConfiguration(FileNotFoundError):
    """A configuration that the script reads isn't there; it can't be guessed."""


class MissingFiles:
    """Answers where a read of `path` goes."""

    def __init__(self, substitutes: Substitutes, plan: DataPlan) -> None:
        self.substitutes, self.plan = substitutes, plan
        self.folder = Path(substitutes.settings.work) / "files"
        self.given = {os.path.normpath(name): file for name, file in substitutes.settings.files}

    def name_of(self, path: str) -> str:
        """What a file is called in the plan, by both sides: its path from the working folder, from the copy, or from
        what each side has around its copy."""
        absolute = os.path.abspath(path)
        here = os.getcwd() + os.sep
        if absolute.startswith(here):
            return absolute[len(here) :]
        copied = re.match(rf"{re.escape(self.substitutes.settings.work)}/[^/]+/(?:copy/)?(.+)", absolute)
        return copied[1] if copied else absolute

    def given_for(self, path: str) -> str | None:
        """The user's own file for `path`, by its path or by its name alone."""
        for name in (os.path.normpath(path), self.name_of(path), os.path.basename(path)):
            if name in self.given:
                self.substitutes.note(f"{self.given[name]} was read for {path}")
                return self.given[name]
        return None

    def stand_in(self, path: Any, frame: FrameType | None) -> str | None:
        """The file to read in place of `path`; None when `path` itself is right or nothing can stand in."""
        try:
            path = os.fspath(path)
        except TypeError:
            return None
        if not isinstance(path, str) or "://" in path or "\0" in path or any(part in path for part in INSTALLED):
            return None
        given = self.given_for(path) if self.given else None
        if given is not None:
            return given
        suffix = suffix_of(path)
        if (suffix and suffix not in DATA + CONFIGURATION) or frame is None or self.there(path):
            return None
        if handled(frame):
            return None
        read = self.plan.read_at(frame)
        if not suffix and not self.is_named_data(path, read):
            return None
        if suffix in CONFIGURATION or self.is_configuration(path, read):
            beside = self.of_project(path)
            if beside is not None:
                return beside
            place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            name = self.name_of(path)
            raise MissingConfiguration(
                f"the configuration {name}, which {place} reads, is not there: give one with --file {name}=FILE"
            )
        return self.write(path, suffix, read)

    def is_named_data(self, path: str, read: Any) -> bool:
        """Whether a name without a suffix, as "your dataset path", is that of data by how it is read.

        A port's reads aren't those of the source's text: what was made up for that tells.
        """
        if self.plan.writes:
            return read is not None and read.form in FORMS
        return self.name_of(path) in self.plan.entries

    def of_project(self, path: str) -> str | None:
        """The project's one file of that name, for a configuration that is asked for by a path of another machine."""
        project = self.substitutes.settings.project
        name = os.path.basename(path)
        if project is None or not name or glob.escape(name) != name:
            return None
        found = [file for file in Path(project).rglob(name) if ".git" not in file.parts and self.there(str(file))]
        if len(found) != 1:
            return None
        self.substitutes.note(f"the project's {found[0].relative_to(project)} was read for {path}")
        return str(found[0])

    @staticmethod
    def is_configuration(path: str, read: Any) -> bool:
        if read is not None and read.form:
            return bool(read.form == "configuration")
        return path.endswith(".json") and NAMED_CONFIGURATION.search(os.path.basename(path)) is not None

    @staticmethod
    def there(path: str) -> bool:
        """Whether `path` can be read: it exists and is not what Git LFS leaves in place of a file."""
        if not _exists(path):
            return False
        if os.path.isdir(path) or os.path.getsize(path) > 1024:
            return True
        with _open(path, "rb") as file:
            return not file.read(len(POINTER)).startswith(POINTER)

    def found_by(self, pattern: str) -> list[str]:
        """The files that stand in for those of a glob that there are none of: one, or as many as a training takes where
        each holds a document of its own."""
        one = re.sub(r"\*+/?", "made_up", pattern)
        if self.plan.writes:
            asked = self.substitutes.settings.columns.get(DOCUMENT)
            count = DOCUMENTS if isinstance(asked, dict) and "fields" in asked else 0
        else:
            count = sum(NUMBERED.search(name) is not None for name in self.plan.entries)
        return [re.sub(r"\*+/?", f"made_up_{number:03}", pattern) for number in range(1, count + 1)] or [one]

    def write(self, path: str, suffix: str, read: Any) -> str:
        """Make the file up, once for both scripts."""
        name = self.name_of(path)
        entry = self.plan.entry(name, read)
        file = self.folder / re.sub(r"[^\w.-]+", "_", name).strip("_")[-120:]
        columns = ", ".join(entry["columns"]) or entry.get("form") or "text"
        self.substitutes.note(f"a made-up file ({columns}) stood in for {name}, which is not there")
        if self.plan.limit_note:
            self.substitutes.note(self.plan.limit_note)
        if not _exists(file):
            self.folder.mkdir(parents=True, exist_ok=True)
            new = file.with_name(f"{os.getpid()}-{file.name}")
            number = NUMBERED.search(path)
            write_file(new, suffix, entry, int(number[1]) if number is not None else 0)
            if path.lower().endswith(PACKED):
                new.write_bytes(gzip.compress(new.read_bytes()))
            os.replace(new, file)
        parent = Path(path).absolute().parent
        if Path(self.substitutes.settings.work) in parent.parents:  # of the script's copy: it may write beside it
            parent.mkdir(parents=True, exist_ok=True)
        return str(file)


def suffix_of(path: str) -> str:
    """The suffix of a file, in small letters; of a compressed one that of what it holds: `.tsv` of `rows.tsv.gz`."""
    return Path(path.lower().removesuffix(PACKED)).suffix


def write_file(file: Path, suffix: str, entry: dict[str, Any], number: int = 0) -> None:
    """Rows of `entry` as JSON, JSON lines, CSV, parquet or text, by how the script reads them, else by the suffix.

    `number` of a document of which each row is a file of its own.
    """
    if suffix == ".pdf":
        texts = (made_up_value("text", "text", index, entry["seed"]) for index in range(entry["count"]))
        file.write_bytes(made_up_pdf(texts))
        return
    rows, form, document = rows_of(entry), entry.get("form", ""), entry.get("document")
    if suffix == ".parquet":
        import pandas  # type: ignore[import-untyped]

        pandas.DataFrame(rows).to_parquet(file)
        return
    if form == "csv" or suffix in (".csv", ".tsv"):
        with _open(file, "w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, list(entry["columns"]), delimiter="\t" if suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
        return
    if form == "lines" or suffix in (".jsonl", ".ndjson"):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    elif suffix == ".json" or form == "json":
        text = json.dumps(made_document(document, entry, number) if document else rows, ensure_ascii=False, indent=1)
    else:
        text = "".join(f"{made_up_value('text', 'text', index, entry['seed'])}\n" for index in range(entry["count"]))
    with _open(file, "w", encoding="utf-8") as out:
        out.write(text)


def made_document(kind: Any, entry: dict[str, Any], number: int = 0) -> Any:
    """A JSON document: its lists have as many items as a dataset has rows."""
    count, seed, limit = entry["count"], entry["seed"], entry["limit"]
    if "fields" in kind:
        return {
            name: made_document(part, entry)
            if isinstance(part, dict) and ("list" in part or "mapping" in part)
            else made_up_value(name, part, number, seed, limit if number else None)
            for name, part in kind["fields"].items()
        }
    if "mapping" in kind:
        return {f"key{index}": made_up_value("", kind["mapping"], index, seed, limit) for index in range(count)}
    inner = kind["list"]
    if isinstance(inner, dict) and "fields" in inner:
        return rows_of({**entry, "columns": inner["fields"]})
    return [made_up_value("", inner, index, seed, limit) for index in range(count)]


_open, _exists, _isfile = builtins.open, os.path.exists, os.path.isfile


def patch_files(missing: MissingFiles) -> None:
    """`open`, `Path.open`, pandas' readers and questions whether a file exists, in this process."""

    @functools.wraps(_open)
    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(mode, str) and not set(mode) & set("wax+") and not isinstance(file, int):
            file = missing.stand_in(file, users_frame(THROUGH, HANDING_ON)) or file
        return _open(file, mode, *args, **kwargs)

    builtins.open = io.open = opened
    for name in ("exists", "isfile", "isdir"):
        setattr(os.path, name, _asked(getattr(os.path, name), missing))
    for name in ("exists", "is_file", "is_dir"):
        setattr(pathlib.Path, name, _asked(getattr(pathlib.Path, name), missing))
    _patch_glob(missing)
    _patch_tables(missing)
    connect = sqlite3.connect

    @functools.wraps(connect)
    def connected(database: Any, *args: Any, **kwargs: Any) -> Any:
        given = missing.given_for(database) if missing.given and isinstance(database, str) else None
        return connect(given or database, *args, **kwargs)

    sqlite3.connect = connected


def _asked(original: Any, missing: MissingFiles) -> Any:
    """Whether a file exists: yes for one that is made up when it is opened, where the script ends without it.

    So it is for a folder, as that of a checkpoint which another script makes: a tiny model stands in for what is in it.
    """

    @functools.wraps(original)
    def asked(path: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(path, *args, **kwargs)
        if answer or not isinstance(path, str | os.PathLike):
            return answer
        text = os.fspath(path)
        if not isinstance(text, str):
            return answer
        if missing.given and missing.given_for(text):
            return True
        frame = users_frame(THROUGH, HANDING_ON)
        suffix = Path(text).suffix.lower()
        if frame is None or (suffix not in DATA and not re.fullmatch(r"(\.\d[\w-]*)?", suffix)):  # run-v1.5 is a folder
            return False
        tree = _tree(frame.f_code.co_filename)
        if not (ends_without if suffix in DATA else ends_without_folder)(tree, frame.f_lineno):
            return False
        if suffix not in DATA:
            missing.substitutes.note(f"{missing.name_of(text)}, which is not there, was taken to be")
        return True

    return asked


def _patch_glob(missing: MissingFiles) -> None:
    original = glob.glob

    @functools.wraps(original)
    def globbed(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        pattern = args[0] if args else kwargs["pathname"]
        suffix = Path(str(pattern)).suffix.lower()
        frame = users_frame(THROUGH, HANDING_ON)
        if found or suffix not in DATA or frame is None:
            return found
        return missing.found_by(str(pattern))

    glob.glob = globbed


def _patch_tables(missing: MissingFiles) -> None:
    import pandas

    for name in ("read_csv", "read_json", "read_parquet", "read_excel", "read_pickle", "read_table", "read_feather"):
        setattr(pandas, name, _table(getattr(pandas, name), name, missing))


def _table(original: Any, name: str, missing: MissingFiles) -> Any:
    @functools.wraps(original)
    def read(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = by_place(original, args, kwargs)
        if not args:
            return original(**kwargs)
        path, *args = args  # type: ignore[assignment]
        frame = users_frame(THROUGH, HANDING_ON)
        known = isinstance(path, str | os.PathLike) and "://" not in str(path)
        given = missing.given_for(str(path)) if known and missing.given else None
        if given is not None:
            return original(given, *args, **kwargs)
        if not known or frame is None or missing.there(str(path)) or str(path)[:1] in "[{" or handled(frame):
            return original(path, *args, **kwargs)
        return made_table(missing, str(path), frame, name, kwargs)

    return read


def made_table(missing: MissingFiles, path: str, frame: FrameType, name: str, kwargs: dict[str, Any]) -> Any:
    """A made-up table in place of a file that pandas would read; with `chunksize` or `nrows` as asked for."""
    import pandas

    called = missing.name_of(path)
    entry = missing.plan.entry(called, missing.plan.read_at(frame))
    missing.substitutes.note(
        f"a made-up table ({', '.join(entry['columns'])}) stood in for {called}, which is not there"
    )
    table = pandas.DataFrame(rows_of(entry))
    if name == "read_csv" and isinstance(kwargs.get("names"), list):
        table = table.reindex(columns=kwargs["names"])
    if isinstance(kwargs.get("usecols"), list) and set(kwargs["usecols"]) <= set(table.columns):
        table = table[kwargs["usecols"]]
    return iter([table]) if kwargs.get("chunksize") else table.head(kwargs.get("nrows") or len(table))


@functools.lru_cache
def _tree(file: str) -> ast.Module:
    try:
        with _open(file, encoding="utf-8", errors="replace") as text:
            return ast.parse(text.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def handled(frame: FrameType) -> bool:
    """Whether the call in `frame`, or a caller's, stands in a `try` that knows what to do without the file."""
    here: FrameType | None = frame
    while here is not None and of_user(here.f_code.co_filename):
        for node in ast.walk(_tree(here.f_code.co_filename)):
            if isinstance(node, ast.Try) and node.body[0].lineno <= here.f_lineno <= (node.body[-1].end_lineno or 0):
                for handler in node.handlers:
                    caught = {part.id for part in ast.walk(handler.type or node) if isinstance(part, ast.Name)}
                    if handler.type is not None and caught & set(ABSENT) and not leaves(handler.body):
                        return True
        here = here.f_back
    return False

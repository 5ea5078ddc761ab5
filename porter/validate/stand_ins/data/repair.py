"""From a crash on made-up data to the column that would have prevented it.

What a row lacks shows in the user's code as a KeyError; what a column wrongly holds as a method that its type doesn't
have, an index out of range or a number that can't be read. The script is then run again with the column added.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...observing.callers import of_user
from .columns import NEVER
from .healing import missing_in
from .plan import DOCUMENT, KEPT, LISTS
from .shapes import LABELS, Kind, kind_by_name

REPAIR = "repair.json"
TURNS = {"role": "messages", "content": "messages", "from": "sharegpt", "value": "sharegpt"}
KEY = re.compile(r"""(?:\[|\.get\(|\.pop\()\s*["']([^"'\n]{1,80})["']""")
SEPARATED = re.compile(r"""\.r?(?:split|partition)\(\s*(["'])(.+?)\1""")
TEXT = "strip split lower upper replace startswith endswith lstrip rstrip splitlines encode format title find".split()
LOOKED_BACK = 60  # lines before the crash in which a variable may have got its column


def propose_repair(
    error: BaseException, frames: Sequence[traceback.FrameSummary], known: dict[str, Any]
) -> dict[str, Any] | None:
    """`{"column": name, "kind": kind, "why": text}` to add or change in made-up rows; None where data isn't to blame.

    `frames` as of `traceback.extract_tb`, outermost first; `known` is what the work folder's data.json holds.
    """
    columns: dict[str, Kind] = {}
    for entry in known.values():
        columns.update(entry.get("columns", {}))
    everywhere = set(columns).intersection(*(entry.get("columns", {}) for entry in known.values()))
    own = [frame for frame in frames if of_user(frame.filename)]
    if not known or not own:
        return None
    if _prompts_merged(error, frames) and columns.get("prompt") == "text":
        return {"column": "prompt", "kind": "ended", "why": f"{type(error).__name__}: {error}"[:200]}
    if _wants_list(error, own[-1].line or "", columns):
        return {"column": LISTS, "kind": "list", "why": f"{type(error).__name__}: {error}"[:200]}
    documents = [entry for entry in known.values() if entry.get("form") == "json"]
    if documents and (form := _of_document(error, own[-1].line or "", columns, documents)) is not None:
        return {"column": DOCUMENT, "kind": form, "why": f"{type(error).__name__}: {error}"[:200]}
    for frame in reversed(own):
        found = _proposed(error, frame, columns)
        if found is not None and (columns.get(found[0]) != found[1] or found[0] not in everywhere):
            return {"column": found[0], "kind": found[1], "why": f"{type(error).__name__}: {error}"[:200]}
    return None


def _prompts_merged(error: BaseException, frames: Sequence[traceback.FrameSummary]) -> bool:
    """Whether a trainer wants a prompt to have as many tokens before either answer: CPO and ORPO of some releases do.

    A prompt that ends in the middle of a word has not, once the answer's first letters make one with it.
    """
    inside = any(frame.name == "tokenize_row" for frame in frames)
    return isinstance(error, ValueError) and inside and "zip() argument" in str(error)


def _wants_list(error: BaseException, line: str, columns: dict[str, Kind]) -> bool:
    """Whether a column, which is no list since datasets 4, was used as what only a list can be used as."""
    text = str(error)
    if re.search(r"'Column'|\btype Column\b", text):
        return isinstance(error, TypeError | AttributeError)
    of_tokenizer = re.search(r"must be of type `str` \(single|TextEncodeInput|TextInputSequence", text)
    return of_tokenizer is not None and any(name in columns for name in KEY.findall(line))


def given_all_splits(error: BaseException) -> str:
    """A line for an error in a trainer that was given a DatasetDict where it wants one of its splits; "" for another.

    `load_dataset(name)` without a split gives all of them, whatever rows stand in.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        names = frame.f_locals
        owner = type(names.get("self")).__name__
        held = [names.get("train_dataset"), getattr(names.get("self"), "dataset", None)]  # which packing iterates over
        if not owner.endswith(("Trainer", "LengthDataset")) or of_user(frame.f_code.co_filename):
            continue
        if any(type(given).__name__ == "DatasetDict" for given in held):
            return f"{owner} was given a DatasetDict, and not one of its splits\n"
    return ""


def write_repair(error: BaseException, folder: Path, asked: dict[str, Any] | None = None) -> None:
    """Write `folder`/repair.json where made-up data, as the work folder above tells, may be to blame for `error`:
    what is `asked` by who refused it, else what the crash tells."""
    kept = next((parent / KEPT for parent in list(folder.parents)[:2] if (parent / KEPT).exists()), None)
    if kept is None:
        return
    known = json.loads(kept.read_text(encoding="utf-8"))
    proposal = (asked if known else None) or propose_repair(error, traceback.extract_tb(error.__traceback__), known)
    if proposal is not None:
        (folder / REPAIR).write_text(json.dumps(proposal, indent=1), encoding="utf-8")


def _proposed(error: BaseException, frame: traceback.FrameSummary, columns: dict[str, Kind]) -> tuple[str, Kind] | None:
    text = str(error)
    line = frame.line or ""
    if isinstance(error, KeyError) or (isinstance(error, ValueError) and missing_in(error)):
        return _missing(error, frame, columns)
    column = next(_columns_of(frame, columns), None)
    if isinstance(error, AttributeError):
        lacking = re.search(r"'(\w+)' object has no attribute '(\w+)'", text)
        if lacking is None:
            missing = re.search(r"no attribute '(\w+)'", text)
            return (missing[1], kind_by_name(missing[1])) if "Pandas" in text and missing else None
        if column is None:
            return None
        if lacking[2] in TEXT:
            return column, "text"
        if lacking[1] == "str" and lacking[2] in ("get", "items", "keys", "values", "pop"):
            return _structured(column, line)
        if lacking[1] == "str" and lacking[2] in ("append", "index", "extend"):
            return column, {"list": "text"}
        return None
    if column is None:
        return None
    return _of_type(error, text, line, column)


def _of_type(error: BaseException, text: str, line: str, column: str) -> tuple[str, Kind] | None:
    if isinstance(error, TypeError):
        if "string ind" in text:
            return _structured(column, line)
        if "concatenate str" in text or "has no len()" in text or "expected str" in text or "must be str" in text:
            return column, "text"
        if "list indices" in text:
            return _structured(column, line)
        if "is not iterable" in text or "not subscriptable" in text:
            return (column, "text") if "[" not in line else _structured(column, line)
        if "not supported between" in text or "unsupported operand" in text or "must be real number" in text:
            return column, "number"
    separator = SEPARATED.search(line)
    if isinstance(error, IndexError | ValueError) and separator is not None and len(separator[2].strip()) > 1:
        if isinstance(error, IndexError) or "unpack" in text or "not found" in text:
            return column, {"marked": [separator[2].encode().decode("unicode_escape")]}
    if isinstance(error, ValueError):
        if "could not convert string to float" in text or "invalid literal for int" in text:
            return column, {"one of": [0, 1]} if column.lower() in LABELS else "numeral"
        if isinstance(error, json.JSONDecodeError):
            return column, {"json": {"fields": {name: kind_by_name(name) for name in KEY.findall(line)}}}
    return None


def _of_document(
    error: BaseException, line: str, columns: dict[str, Kind], documents: Sequence[dict[str, Any]]
) -> Kind | None:
    """Another form of a JSON document that the error asks for: `mapping`, `list`, or rows `under` names.

    Nothing where the line reads a column: then a row's form is wrong.
    """
    text, names = str(error), KEY.findall(line)
    if set(names) & set(columns) or re.search(r"\]\s*\[", line):
        return None
    if isinstance(error, AttributeError):
        if re.search(r"'list' object has no attribute '(items|keys|values|get)'", text):
            return "mapping"
        return "list" if re.search(r"'dict' object has no attribute '(append|extend|sort)'", text) else None
    if isinstance(error, KeyError) and error.args and type(error.args[0]) in (int, slice):
        return "list"
    if isinstance(error, TypeError) and "unhashable type: 'slice'" in text:
        return "list"
    if isinstance(error, TypeError) and "list indices must be integers or slices, not str" in text:
        under = [name for entry in documents for name in ((entry.get("document") or {}).get("fields") or {})]
        return {"under": list(dict.fromkeys([*under, *names]))} if names else "mapping"
    return None


def _missing(error: BaseException, frame: traceback.FrameSummary, columns: dict[str, Kind]) -> tuple[str, Kind] | None:
    """The column that a lookup asks for; a turn's key means that the turns have the other keys."""
    names = missing_in(error) or re.findall(r"'([^']{1,60})'", str(error))
    if not names:
        return None
    name = names[0]
    if name in NEVER or name.endswith(("_input_ids", "_attention_mask", "_labels")):  # made by a tokenizer
        return None
    if name in TURNS:
        column = next(_columns_of(frame, columns, without=name), None)
        if column is not None:
            return column, TURNS[name]
    inside = next(_columns_of(frame, columns, without=name), None)
    if inside is not None and isinstance(columns[inside], dict) and _within(frame.line or "", inside, name):
        return inside, _with_field(columns[inside], name)
    return name, columns.get(name) or kind_by_name(name)


def _within(line: str, column: str, name: str) -> bool:
    """Whether `name` is looked up in what `column` holds: `row["answers"]["text"]`."""
    return re.search(rf"""["']{re.escape(column)}["']\s*[\])].*["']{re.escape(name)}["']""", line) is not None


def _with_field(kind: dict[str, Any], name: str) -> Kind:
    if "fields" in kind:
        return {"fields": {**kind["fields"], name: kind_by_name(name)}}
    if "list" in kind and isinstance(kind["list"], dict):
        return {"list": _with_field(kind["list"], name)}
    return {"fields": {name: kind_by_name(name)}}


def _structured(column: str, line: str) -> tuple[str, Kind] | None:
    """A text that is used as turns, or as a structure with the fields that the line names."""
    names = [name for name in KEY.findall(line) if name != column]
    for name in names:
        if name in TURNS:
            return column, TURNS[name]
    if not names:
        return column, "messages"
    fields = {"fields": {name: kind_by_name(name) for name in names}}
    return column, {"list": fields} if re.search(r"\[-?\d+\]", line) else fields


def _columns_of(frame: traceback.FrameSummary, columns: dict[str, Kind], without: str = "") -> Iterator[str]:
    """Columns that the line of `frame` reads, itself or by a variable that got one in the lines before."""
    line = frame.line or ""
    yield from (name for name in KEY.findall(line) if name in columns and name != without)
    try:
        text = Path(frame.filename).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    before = text[max(0, (frame.lineno or 1) - LOOKED_BACK) : (frame.lineno or 1)]
    wanted, seen = set(re.findall(r"\b[A-Za-z_]\w*\b", line)), set()
    for earlier in reversed(before):
        bound = re.match(r"\s*(?:for\s+(.+?)\s+in\b|([\w, ]+?)\s*=[^=])", earlier)
        if bound is None or not wanted & set(re.findall(r"\w+", bound[1] or bound[2] or "")):
            continue
        for name in KEY.findall(earlier):
            if name in columns and name != without and name not in seen:
                seen.add(name)
                yield name
        wanted |= set(re.findall(r"\b[A-Za-z_]\w*\b", earlier))

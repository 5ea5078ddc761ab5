"""Made-up datasets that give way: a column that running asks for is added, what isn't there is removed in peace.

The origin of each row is followed through `select`, `shuffle`, `filter` and `map`, so that a column that is added
late holds what it would have held from the start, as it does in the port's process.
"""

from __future__ import annotations

import functools
import linecache
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .columns import TRAINED
from .plan import DataPlan, users_frame
from .rows import made_up_value

if TYPE_CHECKING:
    from ..substitutes import Substitutes

NAMED = re.compile(r"[Cc]olumn '?([\w .-]+?)'? (?:not in|doesn't exist)|Column name \[?'?([\w .-]+?)'?\]? not in")
STREAMED = 64  # rows of a made-up stream, at most, that are held out
SAME_ROWS = ("select", "shuffle", "sort", "filter", "train_test_split", "shard", "flatten_indices", "take", "skip")
BY_SELECTING = ("take", "skip", "shard", "train_test_split")
SAME_PLACES = (
    "rename_column",
    "rename_columns",
    "remove_columns",
    "select_columns",
    "add_column",
    "cast",
    "with_format",
)
SPLIT = re.compile(r"^(train|test|val|dev|eval|validation|unlabeled|sft|all)", re.IGNORECASE)
SHARE = re.compile(r"\*\s*len\(|\blen\([^()]*\)\s*(?:\*|//)")
KEPT = 4  # rows for each step, which a filter leaves at least
MARK = "_made_up"


@dataclass(frozen=True)
class MadeUp:
    """What a made-up dataset remembers: its entry in the plan, and which made-up row each of its rows in memory is.

    Columns that the script took out (`gone`, or all but those that there are) are not added again: a script that asks
    for one ends on the real rows, too.
    """

    substitutes: Substitutes
    plan: DataPlan
    entry: dict[str, Any]
    origin: list[int]
    gone: frozenset[str] = frozenset()
    all_gone: bool = False

    def without(self, name: str, asked: Collection[str]) -> MadeUp:
        """The same behind a call `name` that takes out the columns `asked`, or all others (`select_columns`)."""
        return replace(self, all_gone=True) if name == "select_columns" else replace(self, gone=self.gone | set(asked))


def mark(dataset: Any, substitutes: Substitutes, plan: DataPlan, entry: dict[str, Any]) -> Any:
    """`dataset`, of an entry's rows in their order, as one that heals."""
    setattr(dataset, MARK, MadeUp(substitutes, plan, entry, list(range(len(dataset)))))
    return dataset


def origins(dataset: Any) -> list[int] | None:
    """For each row the index of the made-up row that it comes from; None where that was lost."""
    made = getattr(dataset, MARK, None)
    if made is None:
        return None
    indices = getattr(dataset, "_indices", None)
    if indices is None:
        return list(made.origin) if len(made.origin) == len(dataset) else None
    places = indices.column(0).to_pylist()
    return [made.origin[place] for place in places] if max(places, default=0) < len(made.origin) else None


def heal(dataset: Any, names: list[str]) -> bool:
    """Add columns to a made-up dataset in place; False where the rows' origin was lost or nothing is missing."""
    made, rows = getattr(dataset, MARK, None), origins(dataset)
    wanted = [name for name in names if name not in dataset.column_names]
    if made is None or rows is None or not wanted or not made.plan.writes:
        return False
    if made.all_gone or made.gone & set(wanted):
        return False
    healed = dataset
    for name in wanted:
        kind = made.plan.add_column(made.entry, name)
        values = [made_up_value(name, kind, row, made.entry["seed"], made.entry["limit"]) for row in rows]
        healed = _originals["add_column"](healed, name, values)
        made.substitutes.note(f"column {name} was added to made-up rows when the script asked for it")
    dataset.__dict__.update({key: value for key, value in healed.__dict__.items() if key != MARK})
    # add_column writes the rows out in their present order.
    setattr(dataset, MARK, replace(made, origin=_in_memory(dataset, rows)))
    return True


def _in_memory(dataset: Any, rows: list[int]) -> list[int]:
    indices = getattr(dataset, "_indices", None)
    if indices is None:
        return rows
    found = [0] * dataset._data.num_rows
    for place, row in zip(indices.column(0).to_pylist(), rows, strict=False):
        found[place] = row
    return found


def missing_in(error: BaseException) -> list[str]:
    """The columns that an error of `datasets` or of a row's lookup names."""
    text = str(error.args[0]) if error.args else ""
    named = [one or other for one, other in NAMED.findall(text)]
    if named:
        return named
    return [text] if isinstance(error, KeyError) and re.fullmatch(r"[\w .#/-]{1,60}", text) else []


_originals: dict[str, Any] = {}


def rows_needed(steps: int, rows: int) -> int:
    """How many rows a filter leaves at least, for `steps` of `rows` each: a part of them may be held out."""
    return steps * max(KEPT, rows + rows // 4)


def patch_datasets(needed: int, lists: bool = False) -> None:
    """Made-up datasets heal in this process. A filter leaves `needed` rows at least; `lists`: a column is a list."""
    from datasets import Dataset, DatasetDict

    if _originals:
        return
    for name in ("map", *SAME_ROWS, *SAME_PLACES, "__getitem__"):
        if hasattr(Dataset, name):
            _originals[name] = getattr(Dataset, name)
    for name in ("map", *SAME_ROWS, *SAME_PLACES):
        if name in _originals:
            setattr(Dataset, name, _healing(name, _originals[name], needed))
    Dataset.__getitem__ = _reading(_originals["__getitem__"], lists)
    DatasetDict.__missing__ = _split
    _leave_some_of_streams()


def _leave_some_of_streams() -> None:
    """`stream.take(4000)` and `stream.skip(4000)`, a common split by the real data's size, leave each a part."""
    from datasets import IterableDataset

    for name in ("take", "skip"):
        original = getattr(IterableDataset, name)

        @functools.wraps(original)
        def part(self: Any, n: int, original: Any = original) -> Any:
            return original(self, min(n, STREAMED))

        setattr(IterableDataset, name, part)


def _healing(name: str, original: Any, needed: int) -> Any:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = getattr(self, MARK, None)
        if made is None:
            return original(self, *args, **kwargs)
        if name == "add_column":
            self = _without(self, args[0] if args else kwargs.get("name"), made)
        if name == "select":
            args, kwargs = _of_enough(args, kwargs, len(self), needed)
        taken_out = _taken_out(name, args, kwargs)
        args, kwargs = _only_what_is_there(name, self, args, kwargs)
        before, places = origins(self), _selected(args, kwargs, len(self)) if name == "select" else None
        for _ in range(12):
            try:
                result = original(self, *args, **kwargs)
                break
            except (KeyError, ValueError) as error:
                columns = set(self.column_names)
                if not heal(self, missing_in(error)):
                    raise
                kwargs = _without_new_ones(kwargs, columns, self.column_names)
                taken_out = [*taken_out, *(kwargs.get("remove_columns") or ())]
        else:
            result = original(self, *args, **kwargs)
        made = getattr(self, MARK)
        if taken_out:
            made = made.without(name, taken_out)
        if name == "filter":
            result = _enough(self, result, made, needed)
        if before is not None and places is not None:
            before = [before[place] for place in places]
        return _marked(name, result, made, self, before)

    return method


def _taken_out(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The columns that a call takes out, those that made-up rows don't have included; that it keeps, of
    `select_columns`."""
    word = {"map": "remove_columns", "remove_columns": "column_names", "select_columns": "column_names"}.get(name)
    asked = kwargs.get(word, args[0] if args and name != "map" else None) if word is not None else None
    return [asked] if isinstance(asked, str) else list(asked or ())


def _without_new_ones(kwargs: dict[str, Any], before: set[str], columns: list[str]) -> dict[str, Any]:
    """`remove_columns` of all columns that there were is of all that there are."""
    removed = kwargs.get("remove_columns")
    if not isinstance(removed, list) or not before or not before <= set(removed):
        return kwargs
    return {**kwargs, "remove_columns": [*dict.fromkeys([*removed, *columns])]}


def _without(data: Any, name: Any, made: MadeUp) -> Any:
    """Made-up rows without a column that the script adds: the real ones hadn't it."""
    if name not in data.column_names:
        return data
    alone = len(data.column_names) == 1  # rows of no column are none
    found = _originals["rename_column"](data, name, f"{name}_") if alone else _originals["remove_columns"](data, [name])
    setattr(found, MARK, replace(made, origin=list(origins(data) or made.origin)))
    return found


def _of_enough(args: tuple[Any, ...], kwargs: dict[str, Any], count: int, needed: int) -> tuple[Any, Any]:
    """A share of the rows by its size, `range(int(0.005 * len(rows)))`, is so many at least that training has enough:
    it was one of many more rows."""
    wanted, frame = args[0] if args else kwargs.get("indices"), users_frame(("datasets",))
    if not isinstance(wanted, range) or len(wanted) >= needed or wanted.start or wanted.step != 1 or frame is None:
        return args, kwargs
    if SHARE.search(linecache.getline(frame.f_code.co_filename, frame.f_lineno)) is None:
        return args, kwargs
    enough = range(min(count, needed))
    return ((enough, *args[1:]), kwargs) if args else (args, {**kwargs, "indices": enough})


def _selected(args: tuple[Any, ...], kwargs: dict[str, Any], count: int) -> list[int]:
    """The rows that `select` is asked for; those that a stand-in doesn't have are left out there, too."""
    return [int(place) for place in there(args[0] if args else kwargs["indices"], count)]


def there(indices: Any, count: int) -> list[int]:
    """Those of `indices` that `count` rows have; where they begin behind the last one, as many of the last quarter."""
    wanted = indices if isinstance(indices, range) else list(indices)
    found = [index for index in wanted if index < count]
    first = wanted.start if isinstance(wanted, range) else min(wanted, default=0)
    if found or first < count:
        return found
    # `range(4000, len(dataset))` is empty where there are fewer.
    many = min(len(wanted) or count, -(-count // 4))
    return list(range(count - many, count))


def _marked(name: str, result: Any, made: MadeUp, old: Any, before: list[int] | None) -> Any:
    """`result` remembers where its rows come from."""
    parts = list(result.values()) if isinstance(result, dict) else [result]
    for part in parts:
        if not hasattr(part, "_data"):
            continue
        if name in BY_SELECTING and getattr(part, MARK, None) is not None:
            continue  # selecting has marked it already
        if part._data is old._data or part._data.num_rows == old._data.num_rows == len(made.origin):
            if name not in ("map", "flatten_indices") or getattr(old, "_indices", None) is None:
                setattr(part, MARK, made)
                continue
        rows = before if before is not None and len(before) == len(part) else []
        setattr(part, MARK, replace(made, origin=list(rows)))
    return result


def _enough(old: Any, kept: Any, made: MadeUp, needed: int) -> Any:
    """Rows that a filter keeps, filled up with others in their order where training would run out of rows."""
    wanted = min(len(old), needed)
    if not hasattr(kept, "_indices") or len(kept) >= wanted or len(kept) == len(old):
        return kept
    all_rows, kept_rows = origins(old), origins_of(kept, made)
    if all_rows is None or kept_rows is None:
        places = list(range(wanted))
    else:
        inside = set(kept_rows)
        places = [place for place, row in enumerate(all_rows) if row in inside]
        places = sorted(
            places + [place for place, row in enumerate(all_rows) if row not in inside][: wanted - len(places)]
        )
    made.substitutes.note(
        f"a filter kept {len(kept)} of {len(old)} made-up rows: {wanted} were kept, so that there is enough to train on"
    )
    return _originals["select"](old, places)


def origins_of(part: Any, made: MadeUp) -> list[int] | None:
    setattr(part, MARK, made)
    return origins(part)


def _only_what_is_there(name: str, data: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Arguments without the columns to remove and rows to select that a made-up dataset doesn't have."""
    if name == "map":
        kwargs = {**kwargs, "num_proc": None}
        if kwargs.get("remove_columns") is not None:
            asked = kwargs["remove_columns"]
            asked = [asked] if isinstance(asked, str) else list(asked)
            kwargs["remove_columns"] = [column for column in asked if column in data.column_names]
    elif name == "select":
        if args and not hasattr(args[0], "__len__"):
            args = (list(args[0]), *args[1:])
    elif name == "filter":
        kwargs = {**kwargs, "num_proc": None}
    elif name == "train_test_split":
        args, kwargs = (), _parts(args, kwargs, len(data))
    elif name == "remove_columns":
        asked = args[0] if args else kwargs.pop("column_names")
        asked = [asked] if isinstance(asked, str) else list(asked)
        args = ([column for column in asked if column in data.column_names], *args[1:])
    elif name == "select_columns":
        asked = args[0] if args else kwargs["column_names"]
        heal(data, [asked] if isinstance(asked, str) else list(asked))
    elif name == "rename_column":
        old = args[0] if args else kwargs["original_column_name"]
        new = args[1] if len(args) > 1 else kwargs.get("new_column_name")
        if new in data.column_names and old not in data.column_names:
            args, kwargs = (new, f"{new}_"), {}
        heal(data, [str(old)] if old not in data.column_names and new not in data.column_names else [])
    return args, kwargs


def _parts(args: tuple[Any, ...], kwargs: dict[str, Any], count: int) -> dict[str, Any]:
    """Keywords of `train_test_split` whose numbers of rows, which are the real data's, leave each part some."""
    names = ("test_size", "train_size", "shuffle", "stratify_by_column", "seed")
    kwargs = dict(zip(names, args, strict=False)) | kwargs
    test, train = kwargs.get("test_size"), kwargs.get("train_size")
    if isinstance(test, int) and test >= count:
        kwargs["test_size"] = test = max(count // 4, 1)
    if isinstance(train, int):
        left = count - (test if isinstance(test, int) else math.ceil((test or 0) * count) or 1)
        kwargs["train_size"] = min(train, left)
    return kwargs


def _reading(original: Any, lists: bool = False) -> Any:
    @functools.wraps(original)
    def getitem(self: Any, key: Any) -> Any:
        made = getattr(self, MARK, None)
        if made is not None and isinstance(key, str) and key not in self.column_names:
            if SPLIT.match(key) and key not in TRAINED:
                return self
            heal(self, [key])
        if made is not None and type(key) is int and len(self) and not -len(self) <= key < len(self):
            made.substitutes.note(
                f"row {key} of the made-up rows was asked for: there are {len(self)}, it was one of these"
            )
            key %= len(self)
        found = original(self, key)
        return list(found) if lists and type(found).__name__ == "Column" else found

    return getitem


def _split(self: Any, key: str) -> Any:
    """A split that a made-up DatasetDict doesn't have: the rows of the one that is most alike."""
    parts = [part for part in self.values() if getattr(part, MARK, None) is not None]
    if not parts or not isinstance(key, str):
        raise KeyError(key)
    return parts[0] if "train" in key.lower() or len(parts) == 1 else parts[1]

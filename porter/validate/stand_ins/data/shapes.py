"""The shape of data, gathered from how it is used: two expressions that hold the same data share one shape.

Shapes are merged (union-find), never split, so that a row which goes through variables, parameters and results keeps
all that any of them reads. Order doesn't matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# A kind is JSON: a word, {"list": kind}, {"fields": {name: kind}}, {"json": kind}, {"one of": [...]},
# {"marked": [literal, ...]} for a text in which these literals stand, {"begins": [word, ...]} for one that begins with
# one of these, {"mapping": kind}.
Kind = Any

CONVERSATIONS = ("messages", "conversations", "conversation", "chat", "dialogue", "dialog", "turns", "history")
TURNS = ("messages", "conversations")  # whatever is shown of them; a `dialogue` that is written into a text is text
NUMBERS = (
    "score",
    "idx",
    "id",
    "length",
    "rating",
    "stars",
    "level_id",
    "num_tokens",
    "token_count",
    "score_chosen",
    "score_rejected",
    "reward",
    "margin",
    "weight",
    "year",
    "age",
    "count",
    "price",
)
NO_WORDS: Kind = {"one of": [0, 1]}
"""Labels of which nothing tells what they are."""
FEW = 4
"""Classes of which nothing tells how many there are."""
LABELS = ("label", "labels", "target_label", "class", "label_id", "class_id")
CODE = ("code", "solution_code", "python_code", "canonical_solution", "func_code_string", "program")
JSON = "\0json"
PARTS = "parts "  # a use: its items are unpacked into so many names
CLASSES = "class"  # a use: each value is that of many rows
KEY = "key"  # a use: by its values, of which each is one row's, two tables are joined
LEAST = "least "  # a use: it has at least so many items


class Shape:
    """What is known of one datum: its fields by name, its items, and the uses that tell what it is."""

    __slots__ = (
        *("among", "constants", "fields", "functions", "items", "keys", "leading", "link", "literals", "loaded"),
        *("markers", "stored", "uses"),
    )

    def __init__(self) -> None:
        self.link: Shape | None = None
        self.fields: dict[str, Shape] = {}
        self.items: Shape | None = None
        self.uses: set[str] = set()
        self.literals: list[Any] = []  # what it is compared with
        self.keys: list[Any] = []  # of a mapping or a sequence that the script writes out
        self.among: list[Any] = []  # the keys of such a one that it is looked up in
        self.markers: list[str] = []  # what it is split by
        self.leading: list[str] = []  # words with one of which it begins
        self.constants: list[str] = []  # strings that it may be
        self.stored: set[str] = set()  # fields that the script itself puts in
        self.loaded: set[str] = set()  # fields that were read before anything was put in
        self.functions: list[Any] = []  # what it may be when it is called

    def field(self, name: str) -> Shape:
        here = find(self)
        if name not in here.fields:
            here.fields[name] = Shape()
        return find(here.fields[name])

    def load(self, name: str) -> Shape:
        """Field `name`, which is read here."""
        here = find(self)
        if name not in here.stored:
            here.loaded.add(name)
        return here.field(name)

    def store(self, name: str, value: Shape) -> None:
        """Field `name` gets `value` from the script."""
        find(self).stored.add(name)
        merge(self.field(name), value)

    def item(self) -> Shape:
        here = find(self)
        if here.items is None:
            here.items = Shape()
        return find(here.items)

    def use(self, word: str) -> None:
        find(self).uses.add(word)

    def columns(self) -> dict[str, Shape]:
        """Fields that are read and that the script doesn't put in itself."""
        here = find(self)
        return {name: find(part) for name, part in here.fields.items() if name in here.loaded}


def find(shape: Shape) -> Shape:
    """The one that stands for all merged with `shape`."""
    while shape.link is not None:
        if shape.link.link is not None:
            shape.link = shape.link.link
        shape = shape.link
    return shape


def merge(one: Shape, other: Shape) -> None:
    """Both hold the same data from now on."""
    waiting = [(one, other)]
    while waiting:
        first, second = map(find, waiting.pop())
        if first is second:
            continue
        second.link = first
        for name, part in second.fields.items():
            if name in first.fields:
                waiting.append((first.fields[name], part))
            else:
                first.fields[name] = part
        if second.items is not None:
            if first.items is None:
                first.items = second.items
            else:
                waiting.append((first.items, second.items))
        first.uses |= second.uses
        first.stored |= second.stored
        first.loaded |= second.loaded
        for ours, theirs in (
            (first.literals, second.literals),
            (first.keys, second.keys),
            (first.among, second.among),
            (first.markers, second.markers),
            (first.leading, second.leading),
            (first.constants, second.constants),
            (first.functions, second.functions),
        ):
            ours += [value for value in theirs if value not in ours]


def kind_of(name: str, shape: Shape, depth: int = 0) -> Kind:
    """What a column holds, from its uses and, where these say nothing, from its name."""
    here = find(shape)
    if JSON in here.fields and depth < 4:
        return {"json": _document(here.fields[JSON], depth + 1)}
    fields = here.columns()
    textual = "str" in here.uses
    if here.items is not None and not textual and depth < 4:
        inner = here.item().columns()
        if "mapping" in here.uses and not fields:
            return {"mapping": kind_of("", here.item(), depth + 1)}
        if {"from", "value"} & set(inner):
            return "sharegpt"
        if {"role", "content"} & set(inner):
            return "messages"
        if fields and "mapping" not in here.uses:
            return {"fields": {key: kind_of(key, part, depth + 1) for key, part in fields.items()}}
        if inner:
            return {"list": {"fields": {key: kind_of(key, part, depth + 1) for key, part in inner.items()}}}
        if name in CONVERSATIONS or "chat" in here.uses:
            return _conversation(name)
        if "indexed" in here.uses or "walked" in here.uses:
            # A text that is added up letter by letter looks like lists of lists.
            if here.item().items is not None and not any(use.startswith(PARTS) for use in here.item().uses):
                return "text"
            return {"list": kind_of("", here.item(), depth + 1)} | _size(here)
        if _size(here):
            return {"list": kind_of("", here.item(), depth + 1)} | _size(here)
    if fields and not textual and depth < 4:
        if set(fields) <= {"role", "content"}:
            return {"fields": {"role": {"one of": ["user"]}, "content": "text"}}
        return {"fields": {key: kind_of(key, part, depth + 1) for key, part in fields.items()}}
    if "chat" in here.uses and not textual:
        return _conversation(name)
    if here.leading:
        return {"begins": list(here.leading)}
    if here.markers:
        return {"marked": list(here.markers)}
    return _plain(name, here, textual)


def _size(here: Shape) -> dict[str, int]:
    """How many items a list must have where more than two are asked for, or exactly so many are unpacked."""
    parts = [int(use.removeprefix(PARTS)) for use in here.uses if use.startswith(PARTS)]
    least = [int(use.removeprefix(LEAST)) for use in here.uses if use.startswith(LEAST)]
    if parts:
        return {"exactly": max(parts)}
    return {"least": max(least)} if least and max(least) > 2 else {}


def _plain(name: str, here: Shape, textual: bool) -> Kind:
    if here.among:
        return {"one of": list(here.among)}
    if KEY in here.uses:
        read = textual or any(isinstance(value, str) for value in here.literals)
        return "text key" if read and "numeral" not in here.uses else "key"
    lower = name.lower()
    if CLASSES in here.uses:
        return _classes(lower, here)
    words = [value for value in here.literals if isinstance(value, str)]
    numbers = [value for value in here.literals if type(value) in (int, float)]
    if any(isinstance(value, bool) for value in here.literals) or "bool" in here.uses:
        return "choice"
    if numbers and not words and not textual:
        whole = sorted({value for value in numbers if type(value) is int})
        if lower in LABELS and whole and len(whole) == len(set(numbers)):
            return {"one of": sorted({0, 1, *whole})}
        return "number"
    if words and "numeral" not in here.uses and ("str" not in here.uses or len(words) > 1):
        short = [word for word in words if word and len(word) < 24 and "\n" not in word]
        if short and "prompt" not in lower:
            return {"one of": short if len(short) > 1 else [*short, "other"]}
    if "numeral" in here.uses:
        return "numeral" if textual or "answer" in lower or "solution" in lower else "number"
    if textual:
        return "code" if lower in CODE else "text"
    if lower in LABELS:
        return dict(NO_WORDS)
    if lower in CONVERSATIONS and ("shown" not in here.uses or lower in TURNS):
        return _conversation(name)
    if lower in NUMBERS or lower.endswith(("_id", "_idx", "_score", "_count", "_length")):
        return "number"
    return "code" if lower in CODE else "text"


def _classes(name: str, here: Shape) -> Kind:
    """Few values: those that it is compared with, else numbers or words as the name has it."""
    told = [value for value in here.literals if isinstance(value, str | int | float)]
    if len(told) > 1 and len({type(value) for value in told}) == 1:
        return {"one of": told}
    if name in LABELS:
        return dict(NO_WORDS)
    numbers = "numeral" in here.uses or name in NUMBERS or name.endswith(("_id", "_idx", "_score"))
    return {"one of": list(range(FEW)) if numbers else [f"{name} {letter}" for letter in "abcd"[:FEW]]}


def kind_by_name(name: str) -> Kind:
    """What a column of this name most likely holds, when nothing but the name is known."""
    return kind_of(name, Shape())


def _conversation(name: str) -> Kind:
    return "sharegpt" if name == "conversations" else "messages"


def _document(shape: Shape, depth: int) -> Kind:
    here = find(shape)
    if here.columns() and here.items is None:
        return {"fields": {key: kind_of(key, part, depth) for key, part in here.columns().items()}}
    return kind_of("", here, depth)


def all_shapes(shape: Shape) -> Iterator[Shape]:
    """`shape` and everything in it, each once."""
    seen: set[int] = set()
    waiting = [shape]
    while waiting:
        here = find(waiting.pop())
        if id(here) in seen:
            continue
        seen.add(id(here))
        yield here
        waiting += list(here.fields.values()) + ([here.items] if here.items is not None else [])

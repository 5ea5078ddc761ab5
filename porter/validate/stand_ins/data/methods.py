"""What methods do with data: those of datasets, tables, rows, files and texts."""

from __future__ import annotations

import ast
import re
import string
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .shapes import CLASSES, JSON, KEY, Shape, find, merge

SAME = set(
    "select shuffle shard take skip with_format set_format cast flatten repeat batch to_pandas to_list to_dict copy "
    "reset_index sample head tail dropna drop_duplicates fillna to_iterable_dataset as_dataset prefetch "
    "flatten_indices astype tolist to_numpy squeeze sort_values query train_test_split collect to_dicts "
    "iter_rows iter itertuples with_transform set_transform get_split".split()
)
PASSES = set(
    "list tuple sorted reversed set iter tqdm trange deepcopy copy cycle islice chain cast DataLoader shuffle sample "
    "load_from_cache from_list from_pandas DataFrame from_polars from_arrow standardize_sharegpt "
    "standardize_data_formats maybe_apply_chat_template array asarray Subset ConstantLengthDataset".split()
)
TEXT = set(
    "strip split lower upper replace startswith endswith lstrip rstrip partition rsplit splitlines title find encode "
    "count rfind isdigit removeprefix removesuffix casefold rindex".split()
)
NAMING = {"remove_columns", "select_columns", "sort", "unique", "class_encode_column", "cast_column", "pop", "groupby"}
DRAWS = {"choice", "choices", "sample"}  # of Python's random and NumPy's
ROWS = {"map", "filter", "apply", "flat_map"}
CONFIGURATIONS = {"safe_load", "full_load", "parse_yaml_file", "parse_json_file", "parse_yaml_and_config"}
MATHS = (("####", "#### 42"), ("boxed", "\\boxed{42}"), ("<answer>", "<answer>42</answer>"), ("</think>", "</think>"))
# A text begins with one of some words: `re.match(r"\s*(yes|no|maybe)\b", answer)`.
LEADING = re.compile(r"(\^|\\A)?(?:\(\?i\))?(?:\\s[*+])?\((?:\?:|\?P<\w+>)?(\w+(?:\|\w+)+)\)(?![?*])")
OF_TRL = {"self", "prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "kwargs"}


@dataclass(eq=False)
class Root(ABC):
    """One place in the text that reads data: `kind` is dataset, table or file; `names` what it may be called."""

    kind: str
    shape: Shape
    place: int
    line: int
    end: int
    names: tuple[str, ...]
    node: ast.Call


class Methods:
    """What was found so far, and what methods add to it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = list(arguments)
        self.place = 0
        self.roots: list[Root] = []
        self.functions: list[Any] = []
        self.inside: list[Any] = []  # those that are being read
        self.classes: dict[str, tuple[Shape, dict[str, Any]]] = {}
        self.returns: list[Shape] = []
        self.datasets: list[Shape] = []
        self.batched: list[tuple[Shape, Shape]] = []
        self.derived: list[tuple[Shape, Shape, Shape, dict[str, str]]] = []
        self.later: list[tuple[Shape, Shape]] = []
        self.rows: list[Shape] = []
        self.sinks: list[tuple[str, Shape]] = []
        self.fields: list[str] = []
        self.defaults: dict[str, list[str]] = {}

    @abstractmethod
    def value(self, node: ast.AST | None, scope: Any) -> Shape: ...

    @abstractmethod
    def texts(self, node: ast.expr | None, scope: Any) -> list[str]: ...

    @abstractmethod
    def define(self, node: Any, scope: Any) -> Shape: ...

    @abstractmethod
    def enter(self, function: Any) -> None: ...

    @abstractmethod
    def bind(self, target: ast.expr, held: Shape, scope: Any, source: ast.expr | None = None) -> None: ...

    @abstractmethod
    def walked(self, held: Shape) -> Shape: ...

    @abstractmethod
    def loop(self, target: ast.expr, over: ast.expr, body: Sequence[ast.AST], scope: Any) -> None: ...

    def row_function(self, function: Any, row: Shape, batched: bool | None) -> None:
        """`function` gets `row`, or a batch of them; None: it is seen from the function."""
        self.enter(function)
        if batched is None:
            inner = find(function.first).fields.values()
            made = find(function.result).items is not None
            batched = made and bool(inner) and all(find(part).items is not None for part in inner)
        if batched:
            self.batched.append((function.first, row))
        else:
            merge(function.first, row)
        self.rows.append(row)

    def of_data(
        self,
        node: ast.Call,
        name: str,
        owner: str,
        base: Shape,
        given: list[Shape],
        words: dict[str, Shape],
        spread: list[Shape],
        scope: Any,
    ) -> Shape:
        """A call of a method or of a module's function."""
        first = given[0] if given else Shape()
        if owner == "json" or name in ("loads", "parse_raw"):
            return first.field(JSON) if name in ("load", "loads") else Shape()
        if name in CONFIGURATIONS or (name == "load" and owner in ("yaml", "OmegaConf", "toml", "tomllib")):
            first.use("configuration")
            return Shape()
        if owner == "re" and len(given) > 1:
            return self.searched(name, given)
        if name == "merge" and given and {"on", "left_on", "right_on"} & set(words):
            left, right = given[:2] if owner in ("pd", "pandas") and len(given) > 1 else (base, given[0])
            return self.joined(node, left, right, scope)
        if name in DRAWS and given and (len(given) > 1 or name == "choice" or owner.endswith("random")):
            return self.drawn(name, first)
        if name in ROWS and (first.functions or words.get("function", Shape()).functions):
            return self.mapped(node, name, base, first if first.functions else words["function"], words, given)
        if name == "get" and given:
            return self.got(node, base, given)
        if name in ("rename_column", "rename_columns", "rename"):
            return self.renamed(node, name, base, given, words, scope)
        if name in ("train_test_split", "class_encode_column", "split"):
            self.classed(node, name, base, given, words, scope)
        if name in NAMING:
            for part in [*node.args[:1], *(word.value for word in node.keywords if word.arg == "column_names")]:
                for column in self.texts(part, scope):
                    base.item().load(column) if name != "pop" else base.load(column)
            return base if name != "pop" else (base.load(first.constants[0]) if first.constants else Shape())
        if name in ("format", "format_map"):
            for row in spread + (given if name == "format_map" else []):
                for text in base.constants:
                    for column in placeholders(text):
                        row.load(column).use("shown")
            return Shape()
        return self.of_rows(name, owner, base, given, words)

    def joined(self, node: ast.Call, left: Shape, right: Shape, scope: Any) -> Shape:
        """Two tables by a key that both have; what is read of the rows is the first one's."""
        keys: dict[str, list[Shape]] = {"left_on": [], "right_on": []}
        for word in node.keywords:
            for side, own in ((left, "left_on"), (right, "right_on")):
                for column in self.texts(word.value, scope) if word.arg in ("on", own) else ():
                    side.item().load(column).use(KEY)
                    keys[own].append(side.item().load(column))
        for one, other in zip(*keys.values(), strict=False):
            merge(one, other)  # a text in both, or a number
        held = Shape()
        self.datasets += [held, left, right]
        self.later.append((held, left))
        self.derived.append((held.item(), left.item(), Shape(), {}))
        return held

    def classed(
        self, node: ast.Call, name: str, base: Shape, given: list[Shape], words: dict[str, Shape], scope: Any
    ) -> None:
        """Columns whose values are classes: rows are dealt to the parts of a split by them, or they get numbers."""
        by = {word.arg: word.value for word in node.keywords}
        named = [*node.args[:1], by.get("column")] if name == "class_encode_column" else [by.get("stratify_by_column")]
        many, values = by.get("stratify"), []
        if isinstance(many, ast.Subscript) and isinstance(many.slice, ast.List):  # stratify=table[["topic"]]
            base, named = self.value(many.value, scope), [many.slice]
        elif many is not None:
            values.append(words["stratify"])
        for column in (text for part in named for text in self.texts(part, scope)):
            base.item().load(column).use(CLASSES)
        if name == "split" and len(given) == 2 and not isinstance(node.args[-1], ast.Constant):  # folds.split(rows, y)
            values.append(given[1])
        for held in values:
            held.use(CLASSES)
            if find(held).items is not None:
                held.item().use(CLASSES)

    def of_rows(self, name: str, owner: str, base: Shape, given: list[Shape], words: dict[str, Shape]) -> Shape:
        """Methods of lists, tables, files and texts."""
        first = given[0] if given else Shape()
        if name in ("append", "add") and given:
            merge(base.item(), first)
        elif name == "extend" and given:
            merge(base, first)
        elif name in ("items", "iterrows"):
            held = Shape()
            if name == "items":
                base.use("mapping")
            else:
                base.item().use("tuple")
            merge(held.item().field("\0#1"), base.item())
            return held
        elif name == "values":
            base.use("mapping")
            return base
        elif name == "apply_chat_template":
            (first if given else words.get("conversation", first)).use("chat")
        elif name in ("read", "read_text"):
            return base.field("\0text")
        elif name == "readlines":
            return base
        elif name in ("DictReader", "reader", "Reader"):
            return first.field(f"\0{name.lower()}")
        elif name in TEXT:
            base.use("str")
            if name in ("strip", "rstrip", "lstrip", "lower", "upper", "casefold"):
                return base
            if name in ("splitlines", "split"):
                return base.field("\0lines")
        elif name == "itertuples":
            base.item().use("tuple")
            return base
        elif name == "from_dict":
            held = Shape()
            self.datasets.append(held)
            for column in find(first).stored:
                merge(held.item().field(column), first.field(column).item())
            find(held.item()).stored |= find(first).stored
            return held
        elif name == "from_generator":
            held = Shape()
            self.datasets.append(held)
            for function in first.functions:
                self.enter(function)
                merge(held.item(), function.result)
            return held
        elif name in ("from_list", "from_pandas", "DataFrame"):
            held = Shape()
            self.datasets.append(held)
            merge(held.item(), first.item())
            return held
        elif name in ("concatenate_datasets", "interleave_datasets", "concat"):
            return first.item()
        elif name == "join" and not owner.endswith("path") and given:
            self.walked(first).use("str")
        elif name in ("join", "cwd", "resolve", "absolute", "expanduser"):
            return given[-1] if given else base
        elif name in SAME:
            return base
        elif name in PASSES and given:
            return first
        return Shape()

    def searched(self, name: str, given: list[Shape]) -> Shape:
        """A regular expression runs over a text: what the well-known ones look for is put in."""
        text = given[-1]
        text.use("str")
        for pattern in given[0].constants:
            words = LEADING.match(pattern) if name != "sub" else None
            if words is not None and (words[1] or name in ("match", "fullmatch")):
                text.leading += [word for word in words[2].split("|") if word not in text.leading]
            for sign, marker in MATHS:
                if sign in pattern and marker not in text.markers and name != "sub":
                    text.markers.append(marker)
        return Shape()

    @staticmethod
    def drawn(name: str, held: Shape) -> Shape:
        """One, or some, of the items of what is drawn from."""
        held.use("indexed")
        one = held.item()
        return one if name == "choice" else held

    def got(self, node: ast.Call, base: Shape, given: list[Shape]) -> Shape:
        held = Shape()
        if find(base).keys and not given[0].constants:
            given[0].among += [key for key in find(base).keys if key not in given[0].among]
        for text in given[0].constants:
            held = base.load(text)
        if len(node.args) > 1:
            default = node.args[1]
            if isinstance(default, ast.Constant) and type(default.value) in (int, float, bool):
                held.literals.append(default.value)
            elif isinstance(default, ast.Call):
                merge(held, given[1])
        return held

    def mapped(
        self, node: ast.Call, name: str, base: Shape, functions: Shape, words: dict[str, Shape], given: list[Shape]
    ) -> Shape:
        """`data.map(f)`: rows with what `f` makes, and otherwise those of before."""
        if len(given) > 1 and name == "map" and "with_indices" not in words and "batched" not in words:
            merge(base, given[1])  # pool.map(f, data)
        batched = any(
            word.arg == "batched" and isinstance(word.value, ast.Constant) and word.value.value is True
            for word in node.keywords
        )
        row = base.item()
        for function in functions.functions:
            self.row_function(function, row, batched)
            if "fn_kwargs" in words:
                for key, part in find(words["fn_kwargs"]).fields.items():
                    if key in function.shapes:
                        merge(function.shapes[key], part)
        for word in ("remove_columns", "input_columns"):
            for text in self._listed(words.get(word)):
                if text not in find(row).stored:
                    row.load(text)
        if name in ("filter", "apply") or any(word.arg == "axis" for word in node.keywords):
            return base if name == "filter" else Shape()
        held = Shape()
        self.datasets += [held, base]
        self.later.append((held, base))
        for function in functions.functions:
            self.derived.append((held.item(), base.item(), function.result, {}))
        return held

    @staticmethod
    def _listed(held: Shape | None) -> list[str]:
        if held is None:
            return []
        inner = find(held).items
        return [*find(held).constants, *(find(inner).constants if inner is not None else [])]

    def renamed(
        self, node: ast.Call, name: str, base: Shape, given: list[Shape], words: dict[str, Shape], scope: Any
    ) -> Shape:
        names: dict[str, str] = {}
        if name == "rename_column" and len(given) > 1:
            names = {new: old for old in given[0].constants[:1] for new in given[1].constants[:1]}
        elif name == "rename_column":
            old, new = (self._listed(words.get(word)) for word in ("original_column_name", "new_column_name"))
            names = dict(zip(new, old, strict=False))
        mapping = next(
            iter([*node.args[:1], *(w.value for w in node.keywords if w.arg in ("columns", "mapper"))]), None
        )
        if name != "rename_column" and isinstance(mapping, ast.Dict):
            for key, value in zip(mapping.keys, mapping.values, strict=False):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    names[str(value.value)] = str(key.value)
        held = Shape()
        self.datasets += [held, base]
        self.later.append((held, base))
        made = Shape()
        made.stored |= set(names)
        for after, before in names.items():
            merge(base.item().load(before), held.item().field(after))
        self.derived.append((held.item(), base.item(), made, names))
        return held


def placeholders(template: str) -> list[str]:
    """Names that `template.format(**row)` asks for."""
    try:
        parts = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    except ValueError:
        return []
    return [name.split(".")[0].split("[")[0] for name in parts]

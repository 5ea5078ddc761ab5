"""What calls do with data: reads of files and datasets, the project's own functions, trainers."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from .methods import DRAWS, NAMING, PASSES, ROWS, SAME, TEXT, Methods, Root
from .shapes import JSON, Shape, find, merge

READS = ("load_dataset", "load_from_disk", "from_json", "from_csv", "from_parquet", "from_text", "snapshot_download")
TABLES = ("read_csv", "read_json", "read_parquet", "read_excel", "read_pickle", "read_table", "read_feather")


class Calls(Methods):
    """Adds reads, calls of plain names and of the project's own functions."""

    def comes_from(self, one: Shape, other: Shape, depth: int = 0) -> bool:
        """Whether dataset `one` was mapped from `other`."""
        if depth > 20:
            return False
        return any(
            find(later) is find(one) and (find(earlier) is find(other) or self.comes_from(earlier, other, depth + 1))
            for later, earlier in self.later
            if find(later) is not find(earlier)
        )

    def collect_defaults(self, tree: ast.Module) -> None:
        """Texts that arguments have unless given: of parsers, of dataclasses, and of the command line."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                flags = [each.value for each in node.args if isinstance(each, ast.Constant)]
                default = next((word.value for word in node.keywords if word.arg == "default"), None)
                if flags and isinstance(default, ast.Constant) and isinstance(default.value, str):
                    self.defaults.setdefault(str(flags[-1]).lstrip("-").replace("-", "_"), []).append(default.value)
            elif isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.AnnAssign | ast.Assign) and part.value is not None:
                        target = part.target if isinstance(part, ast.AnnAssign) else part.targets[0]
                        held: Any = part.value
                        if isinstance(held, ast.Call):
                            held = next((word.value for word in held.keywords if word.arg == "default"), None)
                        if isinstance(target, ast.Name) and isinstance(held, ast.Constant):
                            if isinstance(held.value, str):
                                self.defaults.setdefault(target.id, []).append(held.value)
        for flag, text in zip(self.arguments, self.arguments[1:], strict=False):
            if flag.startswith("--"):
                self.defaults[flag[2:].replace("-", "_")] = [text]

    def class_of(self, node: ast.expr) -> dict[str, Any]:
        """Methods that an attribute of `self` may be."""
        if isinstance(node, ast.Name) and node.id in ("self", "cls"):
            return {name: method for _, methods in self.classes.values() for name, method in methods.items()}
        return {}

    def root(self, kind: str, node: ast.Call, names: Sequence[str]) -> Shape:
        known = next((root for root in self.roots if root.node is node), None)
        if known is not None:
            return known.shape
        shape = Shape()
        line, end = node.lineno, node.end_lineno or node.lineno
        self.roots.append(Root(kind, shape, self.place, line, end, tuple(names), node))
        if kind != "file":
            self.datasets.append(shape)
        return shape

    def call(self, node: ast.Call, scope: Any) -> Shape:
        """What a call gives."""
        method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        known = None if method else scope.look(name)
        if known is None and name in self.classes and not name.endswith("Trainer"):
            return self.constructed(node, name, scope)
        if (known is None or not find(known).functions) and (name in READS or name in TABLES or name == "open"):
            return self.read(node, name, owner, scope)
        if name in ("read_text", "read_bytes") and isinstance(node.func, ast.Attribute):
            held = self.value(node.func.value, scope)
            if not any(find(root.shape) is find(held) for root in self.roots):
                return self.root("file", node, self.texts(node.func.value, scope)).field("\0text")
        base = self.value(node.func.value, scope) if isinstance(node.func, ast.Attribute) else Shape()
        given = [self.value(part, scope) for part in node.args]
        words = {word.arg: self.value(word.value, scope) for word in node.keywords if word.arg}
        spread = [self.value(word.value, scope) for word in node.keywords if word.arg is None]
        called = find(known).functions if known is not None else []
        if isinstance(node.func, ast.Attribute):
            own = self.class_of(node.func.value).get(name)
            held_there = find(base).fields.get(f"\0.{name}")
            called = [own] if own is not None else find(held_there).functions if held_there is not None else []
            if not called and name not in ROWS | SAME | TEXT | NAMING and name not in ("get", "append", "items"):
                owners = [methods[name] for _, methods in self.classes.values() if name in methods]
                outer = scope.look(name) if isinstance(node.func.value, ast.Name) else None
                named = find(outer).functions if outer is not None else []
                # Within `def apply_template(row)` another object's, `tokenizer.apply_template(...)`, is not itself.
                called = owners[:2] or [each for each in named if each not in self.inside]
        if called:
            for function in called[:3]:
                for parameter, held in zip(function.parameters, given, strict=False):
                    merge(function.shapes[parameter], held)
                for word, held in words.items():
                    if word in function.shapes:
                        merge(function.shapes[word], held)
                self.enter(function)
            return find(called[0].result)
        self.told(node, name, words, scope)
        if not method:
            return self.named(node, name, given, words, scope)
        return self.of_data(node, name, owner, base, given, words, spread, scope)

    def constructed(self, node: ast.Call, name: str, scope: Any) -> Shape:
        made, methods = self.classes[name]
        given = [self.value(part, scope) for part in node.args]
        words = {word.arg: self.value(word.value, scope) for word in node.keywords if word.arg}
        start = methods.get("__init__")
        if start is not None:
            for parameter, held in zip(start.parameters, given, strict=False):
                merge(start.shapes[parameter], held)
            for word, held in words.items():
                if word in start.shapes:
                    merge(start.shapes[word], held)
            self.enter(start)
        else:
            for word, held in words.items():
                merge(made.field(f"\0.{word}"), held)
        return made

    def read(self, node: ast.Call, name: str, owner: str, scope: Any) -> Shape:
        """A dataset, a table or a file is read."""
        words = {word.arg: word.value for word in node.keywords if word.arg}
        names = [text for part in node.args for text in self.texts(part, scope)]
        names += [text for word in ("path", "data_files") if word in words for text in self.texts(words[word], scope)]
        if name in TABLES:
            held = self.root("table", node, names)
            for word in ("usecols", "names", "index_col", "parse_dates", "columns"):
                for column in self.texts(words.get(word), scope):
                    held.item().load(column)
            return held
        if name == "open":
            if owner and owner.split("(")[0] not in ("io", "codecs", "gzip", "jsonlines", "bz2", "lzma", "smart_open"):
                node_value = node.func.value if isinstance(node.func, ast.Attribute) else None
                names = [*self.texts(node_value, scope), *names]
            held = self.root("file", node, names)
            if owner == "jsonlines":
                rows = Shape()
                merge(held.item().field(JSON), rows.item())
                return rows
            return held
        return self.root("dataset", node, names)

    def told(self, node: ast.Call, name: str, words: dict[str, Shape], scope: Any) -> None:
        """What trainers and their arguments say about columns."""
        for word in ("dataset_text_field",):
            for text in words[word].constants if word in words else ():
                self.fields.append(text)
        if name.endswith("Trainer"):
            for word in ("train_dataset", "eval_dataset"):
                if word in words:
                    self.sinks.append((name, words[word]))
            for function in words["formatting_func"].functions if "formatting_func" in words else ():
                held = words.get("train_dataset", Shape())
                self.row_function(function, held.item(), None)

    def named(self, node: ast.Call, name: str, given: list[Shape], words: dict[str, Shape], scope: Any) -> Shape:
        """A call of a plain name."""
        first = given[0] if given else Shape()
        if name in ("int", "float"):
            first.use("numeral")
        elif name == "zip":
            held = Shape()
            for index, part in enumerate(given):
                part.use("walked")
                merge(held.item().field(f"\0#{index}"), part.item())
            return held
        elif name == "enumerate":
            held = Shape()
            merge(held.item().field("\0#1"), self.walked(first))
            return held
        elif name == "next":
            return first.item()
        elif name in DRAWS and given:
            return self.drawn(name, first)
        elif name in ("map", "filter") and len(given) > 1:
            held = Shape()
            for function in first.functions:
                merge(function.first, given[1].item())
                self.enter(function)
                merge(held.item(), function.result)
            return held if name == "map" else given[1]
        elif name == "partial" and first.functions:
            held = Shape()
            held.functions += first.functions
            for function in first.functions:
                for word, part in words.items():
                    if word in function.shapes:
                        merge(function.shapes[word], part)
            return held
        elif name == "train_test_split":
            self.classed(node, name, first, given, words, scope)
            held = Shape()
            for index in range(2 * len(given)):
                merge(held.field(f"\0#{index}"), given[index // 2])
            return held
        elif name in ("concatenate_datasets", "interleave_datasets"):
            return first.item()
        elif name == "DatasetDict":
            held = Shape()
            self.datasets.append(held)
            for part in list(find(first).fields.values()):
                merge(held, part)
            return held
        elif name == "Path" or name.endswith("join"):
            return given[-1] if given else first
        elif name in ("DictReader", "reader", "Reader"):
            return first.field(f"\0{name.lower()}")
        elif name in PASSES and given:
            return first
        return Shape()

"""Which data a project's scripts read: the columns of each read, found in the text, and how many rows it takes.

Reading is a guess that `--data FILE` overrides, that the table of known datasets completes and that running repairs.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .methods import OF_TRL
from .reading import Reader
from .rows import made_up_rows
from .shapes import JSON, LABELS, NO_WORDS, Kind, Shape, all_shapes, find, kind_by_name, kind_of, merge

__all__ = ["Found", "Kind", "Read", "find_columns", "find_reads", "longest_wanted", "made_up_rows", "rows_wanted"]

COUNT, MOST = 512, 4_000
SAMPLES = re.compile(r"\b(GRPO|RLOO|OnlineDPO|PPO)Trainer\b")
PAIRS = re.compile(r"\b(DPO|ORPO|CPO|SimPO|Reward|BCO|IPO)Trainer\b")
TRAINED = {"text", "messages", "prompt", "completion", "conversations", "input_ids", "labels", "chosen"}
LIMITS = re.compile(
    r"(?:max_length|max_seq_length|cutoff_len|model_max_length|max_seq_len|max_source_length|block_size|seq_length"
    r"|max_len|MAX_LENGTH|MAX_SEQ_LENGTH|CUTOFF_LEN|MAX_LEN)\b(?:\s*:\s*(?:Optional\[)?int\]?)?"
    r"\s*(?:=\s*(?:field\(\s*default\s*=\s*)?|[\"']?,.*?default\s*=\s*)(\d{2,6})"
)
BATCH = re.compile(r"(per_device_train_batch_size|gradient_accumulation_steps)\D{0,80}?(\d{1,4})\b")
# Rows that are put aside before training: `dataset.skip(args.size_valid_set)`.
HELD_OUT = re.compile(r"\b(size_valid_set|val(?:id)?_set_size)\b[^\n]{0,60}?\b(\d{2,4})\b")
# Names of columns that are there after tokenization or that libraries hand to functions.
NEVER = {"input_ids", "attention_mask", "labels", "position_ids", "token_type_ids", "special_tokens_mask", "length"}
TOKENIZES = re.compile(r"\.map\(|input_ids|\btokeniz\w*\(|[tT]okenizer\(|processing_class\(|\.encode\(|_transform\(")
NAMED_TOKENS = re.compile(r"tokeni[sz]ed", re.IGNORECASE)
SETTINGS = re.compile(
    r"(^|_)(lr|learning_rate|batch_size|epochs?|num_train_epochs|model_name|model_name_or_path|base_model|output_dir|"
    r"lora_r|lora_alpha|warmup|optimizer|weight_decay|zero_optimization|training|trainer)(_|$)"
)


@dataclass(frozen=True)
class Read:
    """One read: `kind` dataset, table or file; lines `first` to `last` of text `place`; names that it may be given.

    `columns` of its rows. For a file `form` is json, lines, csv, text, configuration or "" where no use tells, and
    `document` what the JSON is (a kind of `shapes`), None for a list of rows.
    """

    kind: str
    place: int
    first: int
    last: int
    names: tuple[str, ...]
    columns: dict[str, Kind]
    form: str = ""
    document: Kind | None = None


@dataclass(frozen=True)
class Found:
    """All reads of a project, and all columns of all of them."""

    columns: dict[str, Kind]
    reads: tuple[Read, ...] = ()
    made: frozenset[str] = field(default_factory=frozenset)


def find_columns(sources: Sequence[str], arguments: Sequence[str] = ()) -> dict[str, Kind]:
    """Columns that scripts with these texts read from their data, with what each holds.

    `arguments` are command line words (`--dataset_text_field body`). Without any sign of a column the answer is one
    conversational column, `messages`.
    """
    return find_reads(sources, arguments).columns


def find_reads(sources: Sequence[str], arguments: Sequence[str] = ()) -> Found:
    """Every read of data in these texts, and their columns together."""
    reader = Reader(sources, arguments)
    columns: dict[str, Kind] = {}
    made: set[str] = set()
    for function in reader.functions:
        made |= set(find(function.result).stored)
    for later, _, results, _ in reader.derived:
        made |= find(results).stored | find(later).stored
    reads = []
    for root in reader.roots:
        read = _read(root.kind, root.shape)
        if root.kind == "dataset" and not read[0] and any(NAMED_TOKENS.search(name) for name in root.names):
            read = (dict(TOKENIZED), *read[1:])
        reads.append(Read(root.kind, root.place, root.line, root.end, root.names, *read))
        columns.update(read[0])
    reads = _same_labels(reads)
    derived = {id(find(later)) for later, *_ in reader.derived}
    for row in [*reader.rows, *(earlier for _, earlier, *_ in reader.derived), *_loose(reader)]:
        if id(find(row)) not in derived:
            columns = {**_kinds(row), **columns}
    for name in reader.fields:
        if name not in made:
            columns.setdefault(name, "text")
    columns = {name: kind for name, kind in columns.items() if name not in NEVER}
    columns = _trained(columns, made, sources)
    words = list(arguments)
    for flag, value in itertools.pairwise(words) if len(words) > 1 else ():
        if flag.lstrip("-") == "dataset_text_field":
            columns.setdefault(value, "text")
    return Found(columns or _default(sources), tuple(reads), frozenset(made))


def _same_labels(reads: list[Read]) -> list[Read]:
    """Labels of which one read's are words, and another's weren't compared with any, are of the same words."""
    words: dict[str, Kind] = {}
    for read in reads:
        for name, kind in read.columns.items():
            if name.lower() in LABELS and isinstance(kind, dict) and "one of" in kind and kind != NO_WORDS:
                words.setdefault(name, kind)
    return [
        replace(read, columns={name: words.get(name, kind) if kind == NO_WORDS else kind for name, kind in columns})
        for read, columns in ((read, read.columns.items()) for read in reads)
    ]


def _read(kind: str, shape: Shape) -> tuple[dict[str, Kind], str, Kind | None]:
    """Columns, form and document of what a read gives."""
    if kind != "file":
        columns = _kinds(shape.item())
        if "tuple" in find(shape.item()).uses:
            parts = find(shape.item()).fields.items()
            columns |= {name[2:]: kind_of(name[2:], part) for name, part in parts if name.startswith("\0.")}
        return columns, "", None
    here = find(shape)
    text = here.fields.get("\0text")
    if text is not None and "\0lines" in find(text).fields:
        merge(shape, find(text).fields["\0lines"])
        here = find(shape)
    if "configuration" in here.uses or (text is not None and "configuration" in find(text).uses):
        return {}, "configuration", None
    line = find(here.items) if here.items is not None else None
    if line is not None and JSON in line.fields:
        return _kinds(line.fields[JSON]), "lines", None
    for name in ("\0dictreader", "\0reader"):
        if name in here.fields:
            return _kinds(here.fields[name].item()), "csv", None
    document = here.fields.get(JSON) or (find(text).fields.get(JSON) if text is not None else None)
    if document is None:
        return {}, "text" if line is not None or text is not None else "", None
    return _of_document(find(document))


def _of_document(document: Shape) -> tuple[dict[str, Kind], str, Kind | None]:
    fields = document.columns()
    if any(SETTINGS.search(name) for name in fields):
        return {}, "configuration", None
    if fields and document.items is None:
        kind = {"fields": {name: kind_of(name, part) for name, part in fields.items()}}
        rows = next((part for part in fields.values() if part.items is not None and part.item().columns()), None)
        return (_kinds(rows.item()) if rows is not None else {}), "json", kind
    if "mapping" in document.uses:
        return {}, "json", {"mapping": kind_of("", document.item())}
    columns = _kinds(document.item()) if document.items is not None else {}
    if not columns and document.items is not None:
        each = find(document.item())
        if each.items is not None or "str" in each.uses or "chat" in each.uses:
            return {}, "json", {"list": kind_of("", each)}
    return columns, "json", None


def _kinds(row: Shape) -> dict[str, Kind]:
    return {name: kind_of(name, part) for name, part in row.columns().items() if name not in NEVER}


def _loose(reader: Reader) -> Iterator[Shape]:
    """Rows of torch datasets and functions whose parameter's name says so, where the data's way was lost."""
    known = {id(find(shape)) for root in reader.roots for shape in all_shapes(root.shape)}
    known |= {id(find(shape)) for row in reader.rows for shape in all_shapes(row)}
    known |= {id(find(shape)) for batch, _ in reader.batched for shape in all_shapes(batch)}
    known |= {id(find(shape)) for later, *_ in reader.derived for shape in all_shapes(later)}
    if any(find(root.shape.item()).loaded for root in reader.roots if root.kind != "file"):
        return
    for function in reader.functions:
        if not function.parameters:
            continue
        row, name = find(function.first), function.parameters[0]
        if id(row) in known or not _means_row(name):
            continue
        if name.endswith("s") and all(find(part).items is not None for part in row.fields.values()):
            held = Shape()
            for column, part in row.columns().items():
                merge(held.load(column), part.item())
            yield held
        else:
            yield row


def _means_row(name: str) -> bool:
    return name in (
        "example",
        "examples",
        "row",
        "sample",
        "samples",
        "record",
        "data_point",
        "datapoint",
        "ex",
        "item",
    )


def _trained(columns: dict[str, Kind], made: set[str], sources: Sequence[str]) -> dict[str, Kind]:
    """With the columns that the trainers ask for themselves."""
    whole = "\n".join(sources)
    have = made | set(columns)
    if SAMPLES.search(whole):
        columns = {**_rewarded(sources), **columns}
        have |= set(columns)
        if "prompt" not in have and "query" not in have:
            talks = "[0]" in whole and '"content"' in whole.replace("'", '"')
            columns["prompt"] = "messages" if talks else "text"
    elif re.search(r"\bKTO(Trainer|Batches)\b", whole):
        if columns and "completion" not in have:
            columns |= {name: kind for name, kind in KTO.items() if name not in have}
    elif PAIRS.search(whole):
        if columns and not {"chosen", "rejected"} & made and not _paired(have):
            told = columns.get("prompt") == "messages"  # then they are all turns of one conversation
            pair = dict.fromkeys(("chosen", "rejected"), "message answer") if told else PAIR
            columns |= {name: kind for name, kind in pair.items() if name not in have}
            columns |= {"prompt": "message prompt"} if told else {}
    elif re.search(r"\bSFTTrainer\(", whole) and columns and not TRAINED & have and "formatting_func" not in whole:
        columns["messages"] = "messages"
    for name in ("chosen", "rejected"):
        other = "rejected" if name == "chosen" else "chosen"
        if columns.get(other) in ("messages", "sharegpt") and name in columns:
            columns[name] = columns[other]
    if "label" in columns and re.search(r"\bKTO(Trainer|Batches)\b", whole):
        columns["label"] = "choice"
    return columns


def _paired(names: set[str]) -> bool:
    """Whether rows have what is preferred and what isn't; a script may well show one of the two alone."""
    return {"chosen", "rejected"} <= names or any(name.startswith("input_ids_") for name in names)


PAIR: dict[str, Kind] = {"prompt": "text", "chosen": "text", "rejected": "text"}
KTO: dict[str, Kind] = {"prompt": "text", "completion": "text", "label": "choice"}


TOKENIZED: dict[str, Kind] = {"input_ids": "block", "attention_mask": "mask", "labels": "block"}


def is_tokenized(text: str) -> bool:
    """Whether a script gives transformers' Trainer rows as it reads them: another one has made tokens of them."""
    reads = re.search(r"\bload_from_disk\(|\bload_dataset\((?!\s*[\"'](?:text|csv)[\"'])", text)
    return bool(re.search(r"\b(?:Seq2Seq)?Trainer\(", text) and reads and not TOKENIZES.search(text))


def _default(sources: Sequence[str]) -> dict[str, Kind]:
    if any(re.search(r"\bKTO(Trainer|Batches)\b", text) for text in sources):
        return dict(KTO)
    if any(PAIRS.search(text) for text in sources):
        return dict(PAIR)
    if is_tokenized("\n".join(sources)):
        return dict(TOKENIZED)
    prompted = any("completion_only_loss=True" in text.replace(" ", "") for text in sources)
    return {"prompt": "text", "completion": "text"} if prompted else {"messages": "messages"}


def _rewarded(sources: Sequence[str]) -> dict[str, Kind]:
    """Columns that reward functions, which have a parameter `completions` or `completion_ids`, take by name."""
    found: dict[str, Kind] = {}
    for text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                plain = node.args.args
                words = {word.arg for word in (*plain[: len(plain) - len(node.args.defaults)], *node.args.kwonlyargs)}
                if {word.arg for word in plain} & {"completions", "completion_ids"}:
                    for part in ast.walk(node):  # kwargs["answer"], kwargs.get("answer")
                        words |= _of_kwargs(part, node.args.kwarg.arg) if node.args.kwarg else set()
                    found |= {name: _compared(name, node) for name in sorted(words - OF_TRL)}
    return found


def _of_kwargs(node: ast.AST, name: str) -> set[str]:
    key: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name:
        key = node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
        if isinstance(node.func.value, ast.Name) and node.func.value.id == name and node.args:
            key = node.args[0]
    return {key.value} if isinstance(key, ast.Constant) and isinstance(key.value, str) else set()


def _compared(name: str, function: ast.AST) -> Kind:
    kind = kind_by_name(name)
    numbers = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("float", "int")
        for node in ast.walk(function)
    )
    return (
        "numeral" if kind == "text" and numbers and name in ("answer", "solution", "ground_truth", "target") else kind
    )


def rows_wanted(sources: Sequence[str], least: int) -> int:
    """How many rows to make up: what `.select(range(N))` asks for up to 2,000, but no fewer than `least` and 512.

    `least` is for a batch of eight: where the text sets a larger one, with its accumulation, as many more up to 4,000.
    What the text puts aside for validation comes on top.
    """
    most = max(least, COUNT, min(MOST, -(-least * rows_of_a_step(sources) // 8)))
    for text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("range", "min"):
                ends = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and type(arg.value) is int]
                most = max([most, *(min(end, MOST // 2) for end in ends)])
    aside = max((int(number) for text in sources for _, number in HELD_OUT.findall(text)), default=0)
    return most + aside


def rows_of_a_step(sources: Sequence[str]) -> int:
    """The rows of an optimizer step by the batch and the accumulation that the texts set, 1 where they set none."""
    found: dict[str, int] = {}
    for text in sources:
        for name, number in BATCH.findall(text):
            found[name] = max(found.get(name, 1), int(number))
    return found.get("per_device_train_batch_size", 1) * found.get("gradient_accumulation_steps", 1)


def longest_wanted(sources: Sequence[str]) -> int | None:
    """The length in tokens that the texts cut rows at; None where none is found. Of several the smallest."""
    found = [int(number) for text in sources for number in LIMITS.findall(text)]
    return min((number for number in found if number >= 100), default=None)

"""`[facts]`, `[[evidence]]` and `[[shown]]` of a pack: what its library's names are, where one word says it.

Facts are of the whole script: which calls give back the model that they get, which callbacks need no torch, what is
of the GPU side alone. Evidence says since or until which release of the pack's own library a name or keyword is there;
what is shown are the releases that the library prints when it runs.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...releases.versions import pins_of
from ...runtime.facts.field_tables import FieldTable, version_key
from ...source.machine.gpu_of_run import GPU_NAMES, GpuNames
from ...source.machine.library_constants import CONSTANTS, Constants
from ...source.module import FLAT, Module
from ...source.project.printed import Shown
from .python_rule import check_class

FACTS = "pack facts"  # where a file remembers them
# Those that say something of each name.
SAID = ("gone", "services", "reports", "tensors", "import_needs", "call_needs", "constants", "installs")
# Facts whose names are those of packages.
PACKAGES = (
    *("gpu_side", "gpu_drivers", "model_libraries", "language_models", "all_trainers_read", "beside_training"),
    *("text_tokens", "backwards", "absent", "needs_gpu", "rewrites_trainers", "gpu_keyword", "flat"),
)
# Those that hold no import names: words, names of what pip installs, names with `*` for any part of a word.
WORDS = ("gpu_distributions", "core_distributions", "beside_distributions", "adapter_words", "shards_weights")
OPEN = ("kept_models",)
SHOWN = ("printed_batch",)  # patterns of what libraries print
BATCH = {"rows", "per_device", "accumulation", "gpus"}  # the numbers that these name
WORD = re.compile(r"[a-z0-9][a-z0-9-]*")
INSTALLS = re.compile(r"\w+=\w*|@model\.\w+\(\)|\w+\.\w+\(\)")
NAMES = re.compile(r"[\w*]+(?:\.[\w*]+)+")  # import names, in which `*` is any part of a word


@dataclass(frozen=True)
class Facts:
    """Names by what they are. All are import names, `our_library.wrap`."""

    # Functions that give back the model that they get, `our.wrap`, also of an object: `our.Client().wrap`.
    gives_back: tuple[str, ...] = ()
    loads_pair: tuple[str, ...] = ()  # functions that load a model and its tokenizer, and give (model, tokenizer)
    gives_back_pair: tuple[str, ...] = ()  # those that give (model, tokenizer) back as they got them
    loads_adapters: tuple[str, ...] = ()  # those that put the adapters of a folder into the model that they get
    puts_in_adapters: tuple[str, ...] = ()  # those that put new adapters into the model that they get
    shards_weights: tuple[str, ...] = ()  # ways of a launcher that part the weights, in small letters
    adapter_words: tuple[str, ...] = ()  # words by which a name says that it is one of adapters
    flat: tuple[str, ...] = ()  # packages whose classes are re-exported at their top: `our.deep.Config` is `our.Config`
    kept_models: tuple[str, ...] = ()  # calls that give models of torch, which a port may keep; `*` is part of a word
    model_classes: tuple[str, ...] = ()  # classes of models: what an annotation of the model names
    gpu_side: tuple[str, ...] = ()  # packages that only a GPU machine has: what they made goes with its last use
    gpu_made: tuple[str, ...] = ()  # functions and classes whose values are of the GPU's side, of whatever package
    sees_gpu: tuple[str, ...] = ()  # functions without arguments that are True where there is a GPU: decided as on it
    sees_gpu_of: tuple[str, ...] = ()  # those that may be told which GPU is meant, or how strictly
    sees_no_gpu: tuple[str, ...] = ()  # functions that ask for what such a machine lacks, and are False on it
    gpu_capability: tuple[str, ...] = ()  # functions that give a GPU's compute capability, (major, minor)
    gpu_properties: tuple[str, ...] = ()  # those that give an object with them
    gpu_build: tuple[str, ...] = ()  # names that aren't None where a package is built for GPUs
    gpu_keyword: tuple[str, ...] = ()  # packages whose calls say by `gpu=` on which one they run
    devices: tuple[str, ...] = ()  # classes of devices, made of a text, which is their `.type`
    enumerations: tuple[str, ...] = ()  # those whose members a keyword takes like their names
    lower_enumerations: tuple[str, ...] = ()  # those whose members it takes like their names in small letters
    on_gpu: tuple[str, ...] = ()  # classes whose objects have it as their `.device`
    gpu_drivers: tuple[str, ...] = ()  # packages that ask the GPU's driver, and raise where there is none
    callbacks: tuple[str, ...] = ()  # TrainerCallbacks without torch: the port calls them, and classes on them
    callbacks_gone: tuple[str, ...] = ()  # those with nothing to do on a TPU
    model_libraries: tuple[str, ...] = ()  # packages whose classes load models: `our.OurModel.from_pretrained`
    language_models: tuple[str, ...] = ()  # those whose import says that a loop trains a language model
    text_tokens: tuple[str, ...] = ()  # packages that make token ids of texts: a loop beside one trains on these
    all_trainers_read: tuple[str, ...] = ()  # packages of whose trainers each has a table or is refused by a rule
    beside_training: tuple[str, ...] = ()  # further ones beside which a trainer of the file's own is one of models
    backwards: tuple[str, ...] = ()  # packages whose `backward` a training loop calls
    absent: tuple[str, ...] = ()  # packages, not `gpu_side`, that a TPU machine has no use for: their imports go
    needs_gpu: tuple[str, ...] = ()  # further ones that only install beside a GPU: a port that imports them ends
    rewrites_trainers: tuple[str, ...] = ()  # those that write another library's trainers anew when they are imported
    gpu_distributions: tuple[str, ...] = ()  # what pip installs for the GPU side alone
    core_distributions: tuple[str, ...] = ()  # of these, what nothing trains without: there the port's go in
    beside_distributions: tuple[str, ...] = ()  # what a port may still use, in a release as new as its libraries
    loop_settings: tuple[str, ...] = ()  # classes whose keywords set a loop's accumulation and precision
    seeds: tuple[str, ...] = ()  # functions that seed torch's generator, by which adapters are drawn
    seeds_python: tuple[str, ...] = ()  # those that seed Python's
    trains: tuple[str, ...] = ()  # functions and classes that train a model in a way that no rule reads
    starts: tuple[str, ...] = ()  # functions that start another program, by its words or as one text
    printed_batch: tuple[str, ...] = ()  # patterns of lines that tell a run's batch, as `Shown` tells releases
    # Names that the releases of a port have no more, with what does the same; modules that no package brings, with the
    # notebook service that has them.
    gone: tuple[tuple[str, str], ...] = ()
    services: tuple[tuple[str, str], ...] = ()
    # Texts that ask for tensors of a package, `return_tensors="pt"`; modules that import another package, whatever is
    # taken from them, and names that import without it and raise where they are called; `*` is any part of a word.
    tensors: tuple[tuple[str, str], ...] = ()
    import_needs: tuple[tuple[str, str], ...] = ()
    call_needs: tuple[tuple[str, str], ...] = ()
    # What a call that stays needs installed beside its library: of one that loads a model a keyword, `device_map=`, or
    # its value, `attn=flash`; a method of such a model, `@model.load_adapter()`; a class, `our.Config()`.
    installs: tuple[tuple[str, str], ...] = ()
    constants: tuple[tuple[str, str], ...] = ()  # those that a keyword takes like a text
    # Trackers that `report_to` names, with the runtime's callback and its keyword for the run's name.
    reports: tuple[tuple[str, str], ...] = ()

    def __or__(self, other: Facts) -> Facts:
        return Facts(*((*getattr(self, each.name), *getattr(other, each.name)) for each in fields(self)))


NONE = Facts()


def note_facts(module: Module, facts: Facts) -> None:
    """Let a file know what packs say of names."""
    names = GpuNames(**{each.name: getattr(facts, each.name) for each in fields(GpuNames)})
    texts = Constants(dict(facts.constants), facts.enumerations, facts.lower_enumerations)
    module.memory |= {FACTS: facts, GPU_NAMES: names, CONSTANTS: texts, FLAT: frozenset(facts.flat)}
    module.forget_names()


@dataclass(frozen=True)
class Release:
    """A name of the pack's library, or a keyword of a call of it, that is there from `new` on and before `gone`.

    `gone_on` is the day of the release `gone` (ISO 8601): what else the script uses is of before it, too.
    """

    name: str
    keyword: str = ""
    new: str = ""
    gone: str = ""
    gone_on: str = ""

    @property
    def text(self) -> str:
        return f"{self.name.rpartition('.')[2]}({self.keyword}=)" if self.keyword else self.name.rpartition(".")[2]


def is_like(name: str, facts: Iterable[str]) -> bool:
    """Whether a name is one of facts, in which `*` is any part of a word."""
    return any(name.startswith(fact.partition("*")[0]) and _like(fact).fullmatch(name) for fact in facts)


@cache
def _like(fact: str) -> re.Pattern[str]:
    return re.compile(re.escape(fact).replace(r"\*", r"\w*"))


def read_facts(data: Mapping[str, Any], manifest: Path, line: int) -> Facts:
    """`[facts]` of a pack.toml. InputError for a word that is none, and for what are no names."""
    known = [each.name for each in fields(Facts)]
    if not isinstance(data, dict):
        raise InputError(f"facts is {data!r}", manifest, line, fix="write [facts]")
    for word, names in data.items():
        if word not in known:
            raise InputError(f"has a fact {word!r}", manifest, line, fix=f"use {', '.join(known)}")
        if word in SAID:
            _check_said(word, names, manifest, line)
            continue
        if not isinstance(names, list):
            raise InputError(f"{word} is {names!r}", manifest, line, fix="write a list of names")
        for name in names:
            if word in SHOWN:
                _check_pattern(word, name, manifest, line)
                continue
            pattern = WORD if word in WORDS else NAMES if word in OPEN else None
            if pattern is not None and isinstance(name, str) and pattern.fullmatch(name):
                continue
            if isinstance(name, str) and word in (*PACKAGES, "gives_back"):
                check_class(f"{name}.x" if word in PACKAGES else name.replace("().", ".", 1), manifest, line)
            else:
                check_class(name, manifest, line)
    return Facts(**{word: tuple(names.items() if word in SAID else names) for word, names in data.items()})


def _check_pattern(word: str, pattern: object, manifest: Path, line: int) -> None:
    """InputError where a pattern is none, or names no number of a batch."""
    try:
        named = {*re.compile(str(pattern)).groupindex}
    except re.error:
        named = set()
    if not named or not named <= BATCH:
        fix = f"write 'Rows of a step = (?P<rows>[\\d,]+)', with groups of {', '.join(sorted(BATCH))}"
        raise InputError(f"{word} has {pattern!r}", manifest, line, fix=fix)


def _check_said(word: str, names: object, manifest: Path, line: int) -> None:
    """InputError where `[facts.gone]` and its like are no texts by name."""
    if not isinstance(names, dict) or not all(isinstance(said, str) and said for said in names.values()):
        fix = f'write [facts.{word}] and lines "our_library.name" = "..."'
        raise InputError(f"{word} is {names!r}", manifest, line, fix=fix)
    open_ones = {"import_needs": NAMES, "call_needs": NAMES, "installs": INSTALLS}
    for name in names:
        if word not in open_ones or open_ones[word].fullmatch(name) is None:
            check_class(name if word == "gone" else f"{name}.x", manifest, line)


def read_release(row: Mapping[str, Any], manifest: Path, line: int) -> Release:
    """A row of `[[evidence]]`. InputError where it tells nothing."""
    known = {each.name for each in fields(Release)}
    if not set(row) <= known or "name" not in row or not ("new" in row or "gone" in row):
        fix = 'write name = "our_library.train", keyword = "steps", and new or gone'
        raise InputError(f"has evidence of {', '.join(row)}", manifest, line, fix=fix)
    if "gone_on" in row:
        try:
            datetime.date.fromisoformat(str(row["gone_on"]))
        except ValueError:
            fix = 'write a day: "2024-09-11"'
            raise InputError(f"gone_on is {row['gone_on']!r}", manifest, line, fix=fix) from None
    return Release(**{name: str(value) for name, value in row.items()})


def read_shown(row: Mapping[str, Any], manifest: Path, line: int) -> Shown:
    """A row of `[[shown]]`. InputError where its pattern is none, or names no library."""
    fix = (
        "write by = \"Our library\" and pattern = 'Our library (?P<our_library>[\\d.]+)', "
        "or pattern = 'Loading ours' and releases = 'our_library>=1.0,<2.0'"
    )
    if not {"by", "pattern"} <= set(row) <= {"by", "pattern", "file", "releases", "saved_with", "names_script"}:
        raise InputError(f"has a shown of {', '.join(row)}", manifest, line, fix=fix)
    try:
        pattern = re.compile(str(row["pattern"]))
    except re.error as error:
        raise InputError(f"has a pattern {row['pattern']!r}: {error}", manifest, line, fix=fix) from None
    said = str(row.get("releases", ""))
    library, pins = re.split(r"(?=[<>])", said, maxsplit=1)[0].strip(), tuple(pins_of(said))
    if bool(pattern.groupindex) == bool(library and pins):
        raise InputError(f"has a pattern {row['pattern']!r}, which names no library", manifest, line, fix=fix)
    if not {sign for sign, _ in pins} <= {">=", "<"} or (said and "file" in row):
        raise InputError(f"has releases = {said!r}", manifest, line, fix=fix)
    beside = tuple(map(str, row.get("saved_with", ())))
    names_script = str(row.get("names_script", ""))
    return Shown(str(row["by"]), pattern, str(row.get("file", "")), library, pins, beside, names_script)


def release_by_use(
    tables: Sequence[FieldTable], evidence: Iterable[Release], used: Iterable[tuple[str, Sequence[str]]]
) -> tuple[str, str] | None:
    """The newest release that has all that a script uses, and what tells: (`1.4`, `train(steps=)`), or None.

    `used` are names with the keywords that they are given; the releases are those that the tables and rows name.
    """
    rows = [*evidence, *_of_tables(tables)]
    gone = {(row.name, row.keyword): row for row in rows if row.gone}
    found = [gone[name, keyword] for name, keywords in used for keyword in ("", *keywords) if (name, keyword) in gone]
    if not found:
        return None
    first = min(found, key=lambda row: version_key(row.gone))
    older = [release for release in known_releases(tables, rows) if version_key(release) < version_key(first.gone)]
    return (older[-1], first.text) if older else None


def known_releases(tables: Sequence[FieldTable], rows: Iterable[Release]) -> list[str]:
    """Every release that the tables and rows of a pack name, oldest first."""
    named = {word for row in rows for word in (row.new, row.gone) if word}
    for table in tables:
        named.add(table.newest)
        for row in table.own.values():
            named |= {*row.defaults, *row.renamed_from.values(), row.since or "", row.until or ""} - {""}
    return sorted(named, key=version_key)


def _of_tables(tables: Sequence[FieldTable]) -> Iterable[Release]:
    for table in tables:
        for row in table.own.values():
            for name in table.names:
                if row.until:
                    yield Release(name, row.name, gone=row.until)
                yield from (Release(name, old, gone=since) for old, since in row.renamed_from.items())

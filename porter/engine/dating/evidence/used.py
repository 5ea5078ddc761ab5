"""What a script uses of the libraries that releases gained or lost: names, keywords, fields, launches.

Not where it asks for the release, or tries; `porter/releases` says what came and went.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

import libcst as cst

from ....releases.history import LIBRARIES, history
from ....releases.plain_arguments import plain_arguments
from ....releases.unsloth_uses import taken_by_unsloth
from ....releases.uses import Use, uses_and_guards
from ....runtime.facts.field_tables import version_key
from ....source.calls import may_not_run
from ....source.dictionaries.possible import possible_keys
from ....source.launch.launched_with import words_of_launches
from ....source.module import Module
from ....source.project.usual.ways import imports_usually
from ....source.scopes import Binding
from ...script.fill_from_tables import tables_of
from ...script.flow import binding_origins, origins
from ...script.following.may_be_none import may_be_none
from ...script.following.reaching import not_behind
from ...script.training import Training
from .ids_as_lists import GIVES_MORE, takes_ids_as_a_list
from .model_families import first_with_its_models

SOURCES = ("trl", "transformers")
USES = ("uses",)
BEFORE = ("imported before unsloth",)
GUARDED = "the lines of what the file uses by condition"
LAUNCHED = ("launched with",)
EVIDENCE = "what dates it"
ABLE = "the releases with all that is used"
ADAPTED = ("trainers that get adapters twice",)
ONE_ADAPTER = frozenset(f"trl.{name}Trainer" for name in ("SFT", "DPO", "GRPO", "RLOO"))
PARSED = re.compile(r"""\.parse_(?:json|yaml)_file\(\s*(?:\w+ *= *)?["']([^"'\n]+)["']""")
# Parsers that take the classes whose fields are the flags; argparse is told each.
CLASS_PARSER = re.compile(r"\w+ArgumentParser\(|TrlParser\(")
OWN_PARSER, OWN_FLAG = "TrlParser(", "config"
GIVES_BACK = re.compile(r"(?m)^[ \t]*if not hasattr\(([\w.]+), *[\"'](\w+)[\"']\):[ \t]*(?:#.*)?\n?[ \t]*\1\.\2[ \t]*=")
IN_EFFECT = " in effect"
FLOORS = ("the oldest releases with what it uses",)


@dataclass(frozen=True)
class Evidence:
    """Something that a script uses: releases from `new` on and before `gone` have it.

    With `acts` they have it before and behind that, too, where it does nothing. `loads`: a model, and no keyword.
    """

    text: str
    new: str | None
    gone: str | None
    acts: bool = False
    loads: bool = False


def evidence(porting: Training, library: str) -> Sequence[Evidence]:
    """Names, keywords and fields of the file that came or went; not where it asks for the release, or tries."""
    asked = (EVIDENCE, library)
    if asked not in porting.answers or porting.answers[asked][0] != porting.sites:
        porting.answers[asked] = [*porting.sites], [*_evidence(porting, library)]
    found: list[Evidence] = porting.answers[asked][1]
    return found


def _evidence(porting: Training, library: str) -> Iterator[Evidence]:
    if library == "trl":
        for trainer, release in plain_arguments(porting.module.python).items():
            yield Evidence(f"{trainer}(args=TrainingArguments)", None, release)
        if ADAPTED not in porting.answers:
            porting.answers[ADAPTED] = list(_adapted_twice(porting))
        yield from porting.answers[ADAPTED]
    yield from _of_other_libraries(porting, library)
    if library == "transformers":
        yield from _fractions(porting)
        yield from _given_back(porting)
        if takes_ids_as_a_list(porting):
            yield Evidence("apply_chat_template's ids as a list", None, GIVES_MORE, acts=True)
        if (first := first_with_its_models(porting)) is not None:
            yield Evidence(first[1], first[0], None, loads=True)
    unsloth = bool(porting.module.text) and "unsloth" in porting.module.roots
    unsloth = unsloth and imports_usually(porting.module, "unsloth") is not False
    if not unsloth:
        yield from _values(porting, library)
        yield from _taken_where_there(porting, library)
    known, seen = history(), set()
    used = list(dict.fromkeys((name, tuple(keywords)) for name, keywords in _uses(porting)))
    if not unsloth:
        classes = dict.fromkeys(name for name, _ in used if name.endswith(("Config", "Arguments")))
        yield from _given_by_launches(porting, [name for name in classes if name.startswith(SOURCES)], library)
    for name, keywords in used:
        if name.partition(".")[0] not in (*SOURCES, library):
            continue
        if unsloth:
            own = not before_unsloth(porting).isdisjoint(name.split("."))
            keywords = tuple(
                each for each in keywords if library == "trl" and (own or not taken_by_unsloth(name, [each]))
            )
            if not keywords and (library != "trl" or known.lifetime(library, name, "")[1] is None):
                continue  # Unsloth doesn't bring back what TRL has lost
        last = name.rpartition(".")[2]
        for keyword in ("", *keywords):
            text = f"{last}({keyword}=)" if keyword else last
            new, gone = known.lifetime(library, name, keyword)
            if (new or gone) and text not in seen:
                seen.add(text)
                yield Evidence(text, new, gone)
                if (ignored := _ignored_from(porting, library, name, keyword)) is not None:
                    yield Evidence(f"{text}{IN_EFFECT}", None, ignored, acts=True)


def _taken_where_there(porting: Training, library: str) -> Iterator[Evidence]:
    """What a class is given where a `try` has imported it: a release that has the class takes it."""
    for use in written(porting):
        for keyword in use.keywords if use.if_there and use.name.startswith(SOURCES) else ():
            _, gone = history().lifetime(library, use.name, keyword)
            if gone:
                yield Evidence(f"{use.last}({keyword}=)", None, gone)


def _ignored_from(porting: Training, library: str, name: str, keyword: str) -> str | None:
    """The first release that takes a keyword and no notice of it; None where all that have it act on it."""
    rule = tables_of(porting).get(name)
    row = rule.table.row(keyword) if rule is not None and keyword and rule.table.library == library else None
    return min(row.ignored, key=version_key, default=None) if row is not None else None


def contradictions(porting: Training, library: str, version: str) -> list[str]:
    """What the script uses and that release didn't have (any more, or yet)."""
    found = []
    for row in evidence(porting, library):
        if row.acts:
            continue
        if row.gone and version_key(version) >= version_key(row.gone):
            found.append(f"{row.text} (gone in {short_version(row.gone)})")
        elif row.new and version_key(version) < version_key(row.new):
            found.append(f"{row.text} (new in {short_version(row.new)})")
    return found


def releases_with_all(porting: Training, library: str) -> list[str]:
    """The releases of a library that have all that the script uses, the oldest first."""
    asked = (ABLE, library)
    if asked not in porting.answers:
        used = [row for row in evidence(porting, library) if not row.acts]
        porting.answers[asked] = [
            release
            for release in history().releases(library)
            if all(not row.gone or version_key(release) < version_key(row.gone) for row in used)
            and all(not row.new or version_key(release) >= version_key(row.new) for row in used)
        ]
    found: list[str] = porting.answers[asked]
    return found


def floors(porting: Training) -> dict[str, str]:
    """The oldest release of each library that has what the script uses."""
    if FLOORS not in porting.answers:
        used = {library: evidence(porting, library) for library in (*SOURCES, "peft")}
        news = {library: [row.new for row in rows if row.new and not row.acts] for library, rows in used.items()}
        porting.answers[FLOORS] = {library: max(new, key=version_key) for library, new in news.items() if new}
    found: dict[str, str] = porting.answers[FLOORS]
    return found


def _adapted_twice(porting: Training) -> Iterator[Evidence]:
    """Trainers that are given a model with adapters and a config of adapters too: TRL refuses both from 0.27 on."""
    module = porting.module
    for site in porting.sites:
        model, config = site.argument("model"), site.argument("peft_config")
        if site.qualified not in ONE_ADAPTER or model is None or model.node is None:
            continue
        if config is None or config.value.is_literal(None) or may_be_none(module, config.node):
            continue
        made = list(origins(module, model.node))
        for binding in not_behind(module, model.node):
            made += binding_origins(module, binding) if not may_not_run(module, binding, model.node) else ()
        if any(isinstance(value, cst.Call) and module.qualified(value.func) == "peft.get_peft_model" for value in made):
            name = site.qualified.removeprefix("trl.")
            yield Evidence(f"{name}(get_peft_model(...), peft_config=)", None, "0.27.0")
            return


def _of_other_libraries(porting: Training, library: str) -> Iterator[Evidence]:
    """Names that another library lost, by that day: releases of `library` from before it go with that library's."""
    rows = {row.name: row for pack in porting.packs for row in pack.evidence if row.gone_on and not row.keyword}
    roots = {name.partition(".")[0] for name in rows} & porting.module.roots
    if not roots:
        return
    record = history().record(library)
    for use in written(porting, *sorted(roots)):
        row = rows.get(use.name)
        if row is None or use.guarded:
            continue
        day = datetime.date.fromisoformat(row.gone_on)
        later = [one for one, out in zip(record.releases, record.dates, strict=True) if out >= day]
        if later:
            first = min(later, key=version_key)
            yield Evidence(f"{row.name} of before {row.name.partition('.')[0]} {short_version(row.gone)}", None, first)
            return


def _fractions(porting: Training) -> Iterator[Evidence]:
    """Fractions for what took whole numbers alone for some time: as of before it, where TRL's release isn't of after.

    transformers had `warmup_steps=0.03` as a part of one step, then refused it, and has it as a share of all steps.
    """
    able = releases_with_all(porting, "trl")
    if not able or able[-1] == history().releases("trl")[-1]:
        return
    known = history()
    day = known.record("transformers").releases[known.at_day("transformers", known.date("trl", able[-1]))]
    for site in porting.sites:
        rule = tables_of(porting).get(site.qualified)
        if rule is None:
            continue
        for argument in site.arguments:
            row = rule.table.row(argument.name)
            value = argument.value.literal if argument.value.known else None
            if row is None or not row.whole or not isinstance(value, float) or value.is_integer():
                continue
            since, until = row.whole
            if version_key(day) < version_key(until):
                yield Evidence(f"{argument.name}={value}", None, since, acts=True)
                return


def _given_back(porting: Training) -> Iterator[Evidence]:
    """What models have lost and the script gives them where they lack it: it ran on a release that had lost it, or its
    model comes with code of its own that never had it, so that what is asked for counts more.

    TRL of before reads it: `if not hasattr(model, "warnings_issued"): model.warnings_issued = {}`.
    """
    record = history().record("transformers")
    for _, name in GIVES_BACK.findall(porting.module.python):
        members = (record.group(parts["members"]).get(name, 0) for parts in record.data["classes"].values())
        last = reduce(or_, members, 0).bit_length()
        if 0 < last < len(record.releases):
            yield Evidence(f"a model without {name}", record.releases[last], None, acts=True)


def _values(porting: Training, library: str) -> Iterator[Evidence]:
    """Values that a keyword took once, `optim="adamw_hf"`, or that later releases take, `loss_type="chunked_nll"`. Of
    the latter Unsloth has taken some before."""
    for site in porting.sites:
        rule = tables_of(porting).get(site.qualified)
        if rule is None or _is_guarded(porting, site.node):
            continue
        for argument in site.arguments:
            row = rule.table.row(argument.name)
            if row is None or not (argument.value.known and argument.certain):
                continue
            if not (row.refuses or row.taken_from) or rule.table.library_of(row.name) != library:
                continue
            gone = row.refused_from(argument.value.literal)
            new = row.first_with(argument.value.literal) if "unsloth" not in porting.module.roots else None
            if gone is not None or new is not None:
                name = site.qualified.rpartition(".")[2]
                yield Evidence(f"{name}({argument.name}={argument.value.literal!r})", new, gone)


def before_unsloth(porting: Training) -> frozenset[str]:
    """Names that are taken from TRL before Unsloth is imported, in whichever file of a project: they stay TRL's own."""
    if BEFORE not in porting.answers:
        module = porting.module
        made = {name: _imports_of(module, name) for name in ("trl", "unsloth")}
        first = min((module.turn(each.node) for each in made["unsloth"]), default=())
        taken = (each.qualified for each in made["trl"] if "." in each.qualified and module.turn(each.node) < first)
        porting.answers[BEFORE] = frozenset(name.rpartition(".")[2] for name in taken)
    found: frozenset[str] = porting.answers[BEFORE]
    return found


def _imports_of(module: Module, package: str) -> list[Binding]:
    return [each for each in module.import_bindings if each.qualified.partition(".")[0] == package]


def _given_by_launches(porting: Training, names: Sequence[str], library: str) -> Iterator[Evidence]:
    """Flags of the project's shell scripts, keys of the files that they name or the script gives its parser, which are
    fields of those classes."""
    if LAUNCHED not in porting.answers:
        module = porting.module
        parses = CLASS_PARSER.search(module.text) is not None
        found = words_of_launches(Path(module.path), PARSED.findall(module.python)) if parses else {}
        for call in module.calls if "parse_dict(" in module.text else ():
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "parse_dict" and call.args:
                keys = possible_keys(module, call.args[0].value, call).found
                found |= {key: "what it parses" for key in keys if key not in found}
        porting.answers[LAUNCHED] = found
    seen = set()
    for word, file in porting.answers[LAUNCHED].items():
        if re.search(rf"(?m)^[ \t]+{re.escape(word)}[ \t]*:", porting.module.text):
            continue  # a field of a dataclass of the script: two of one name are refused
        if word == OWN_FLAG and OWN_PARSER in porting.module.text:
            continue  # which the parser takes itself, in all releases
        for name in names:
            new, gone = history().lifetime(library, name, word)
            if (new or gone) and word not in seen:
                seen.add(word)
                yield Evidence(f"{name.rpartition('.')[2]}({word}=) of {file}", new, gone)


def short_version(version: str) -> str:
    """`0.13` for 0.13.0."""
    return version.removesuffix(".0") if version.count(".") == 2 else version


def _uses(porting: Training) -> Iterator[tuple[str, list[str]]]:
    """Names of libraries with the keywords that they are given and the fields that are read of their objects."""
    for use in written(porting):
        fields = use.attributes if use.last.endswith(("Config", "Arguments")) else ()
        if not use.guarded:
            yield use.name, [*use.keywords, *fields]
    for site in porting.sites:  # with what is known of `**more`
        if not _is_guarded(porting, site.node):
            own = [argument for argument in site.arguments if argument.line not in guarded_lines(porting)]
            yield site.qualified, [argument.name for argument in own]


def written(porting: Training, *roots: str) -> list[Use]:
    """What the text uses of the libraries (those with a history, or `roots`), read once."""
    asked = (*USES, *roots)
    if asked not in porting.answers:
        try:
            porting.answers[asked] = uses_and_guards(porting.module.python, roots or LIBRARIES, before_unsloth(porting))
        except (SyntaxError, ValueError):  # libcst reads more than Python
            porting.answers[asked] = [], frozenset()
    found: list[Use] = porting.answers[asked][0]
    return found


def _is_guarded(porting: Training, node: cst.CSTNode) -> bool:
    return porting.module.location(node)[0] in guarded_lines(porting)


def guarded_lines(porting: Training) -> frozenset[int]:
    """The lines of what the script has for some releases alone: behind a test of a version, or of a signature."""
    if GUARDED not in porting.answers:
        lines = {use.line for use in written(porting) if use.guarded}
        porting.answers[GUARDED] = lines | porting.answers[USES][1]
    found: frozenset[int] = porting.answers[GUARDED]
    return found

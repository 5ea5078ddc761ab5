"""Which interpreter runs a source, and what to say about it."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from ...extras import normal
from ...recipe import Recipe
from ...releases.history import LIBRARIES, history
from ...releases.plain_arguments import clashes, plain_arguments
from ...releases.sets import Chosen, choose, within_known
from ...releases.uses import Use, uses_of
from ...releases.versions import fits, key, pins_of
from ...runtime.facts.families import find_family, first_release_of
from ...source.notebooks.program import is_notebook, program_text
from ...source.project.packages import packages_installed, packages_of_project
from ...source.project.pins import installed_by, pins_of_project
from ...source.project.printed import printed_by
from ..stand_ins.command_line.project import project_files, project_sources
from ..world.packages import missing_packages
from .interpreter import ask
from .make import CannotMake, environment_for, overlay_for
from .sets import Wanted, era_of, of_this_environment, wanted_for
from .store import look

WITH_EVERY_SET = {
    *("torch", "transformers", "trl", "peft", "accelerate", "datasets", "numpy", "pandas", "pyarrow", "tokenizers"),
    *("huggingface_hub", "safetensors", "tqdm", "yaml", "requests", "packaging", "regex", "fsspec", "filelock", "dill"),
    *("scipy", "rich", "sentencepiece", "tiktoken", "jinja2", "sympy", "networkx", "psutil", "setuptools", "google"),
}

# The first transformers that computes a family as Unsloth mends it in those before: Gemma 4's last layers have no keys
# and values of their own, also without a cache.
MENDED_BY_UNSLOTH = {"gemma4": "5.5.2"}
REMEMBERED = "source_python"  # a file of a validation's folder
Say = Callable[[str], None]


def source_python(
    source: Path, given: Path | None, *, environments: bool = True, say: Say = lambda line: None
) -> tuple[Path, list[str]]:
    """The interpreter for `source`, and notes for the verdict.

    `given` is the user's own; else an environment with the releases that the script was written for, unless those are
    the ones here or `environments` is false. Libraries that compute and that the script imports come along. InputError
    when `given` can't be used.
    """
    here = Path(sys.executable)
    if given is not None:
        found = ask(given)
        return found.path, [f"the source ran with {given}: {found}"]
    wanted, told = wanted_releases(source)
    extras = imported_packages(source, in_a_set if wanted is not None else is_here)
    if wanted is None and not extras:
        return here, []
    own = ", ".join(f"{name} {version}" for name, version in of_this_environment(("trl", "transformers")))
    if not environments:
        asked = f"was written for {wanted}" if wanted is not None else f"imports {', '.join(extras)}"
        return here, [*told, f"the source {asked}, but ran on {own} (--no-environments)"]
    try:
        if wanted is None:
            return overlay_for(extras, say).python, []
        made = environment_for(replace(wanted, extras=tuple(extras)), say)
    except CannotMake as error:
        say(f"no environment for the source: {error}")
        return here, [*told, f"the source was written for {wanted or 'these releases'}, but ran on {own}: {error}"]
    return made.python, [*told, _told(wanted, made.about or {}), *_missing(made.about or {})]


def port_python(
    port: Path,
    source: Path | None = None,
    *,
    environments: bool = True,
    say: Say = lambda line: None,
    like: Path | None = None,
) -> Path:
    """The interpreter for `port`: tpu-port's own, with libraries that compute and that only the script has.

    Modules of `source`'s project are the port's, too. The libraries are of the releases that the source's interpreter
    `like` has of them, as far as those can stand beside JAX.
    """
    extras = imported_packages(port, is_here, source) if environments else []
    try:
        if not extras:
            return Path(sys.executable)
        alike = [*_as_in(like, extras), *_brought_by(like, extras)]
        made = overlay_for(alike, say)
        if alike != extras and (made.about or {}).get("missing"):
            made = overlay_for(extras, say)
        return made.python
    except CannotMake as error:
        say(f"not installed for the port: {', '.join(extras)} ({error})")
        return Path(sys.executable)


def remember_python(work: str, python: Path) -> None:
    """Note in the folder of a validation which interpreter its source runs with."""
    (Path(work) / REMEMBERED).write_text(str(python), encoding="utf-8")


def remembered_python(work: str) -> Path | None:
    """The interpreter that the source ran with, where it has run."""
    said = Path(work) / REMEMBERED
    return Path(said.read_text(encoding="utf-8")) if said.is_file() else None


def _as_in(python: Path | None, extras: list[str]) -> list[str]:
    """`extras` with the releases that the environment of `python` has of them."""
    about = look(python.parent.parent).about if python is not None else None
    releases = {normal(name): version for name, version in ((about or {}).get("releases") or {}).items()}
    bare = {extra: normal(extra) for extra in extras if re.fullmatch(r"[\w.-]+", extra)}
    return [f"{extra}=={releases[bare[extra]]}" if bare.get(extra) in releases else extra for extra in extras]


def _brought_by(python: Path | None, extras: list[str]) -> list[str]:
    """What `extras` brought along where `python` runs, of the same releases: libraries of one family go together."""
    sites = python.parent.parent.glob("lib/python*/site-packages") if python is not None else ()
    held = {normal(each.name): each for each in metadata.distributions(path=[str(site) for site in sites])}
    seen = {normal(extra) for extra in extras}
    left = [*seen]
    while left:
        asked = held[name].requires or [] if (name := left.pop()) in held else []
        needed = {normal(found[0]) for row in asked if "extra ==" not in row and (found := re.match(r"[\w.-]+", row))}
        left += (new := needed & {*held} - seen)
        seen |= new
    own = {normal(each.name) for each in metadata.distributions()}
    brought = sorted(seen & {*held} - own - {normal(extra) for extra in extras})
    return [f"{name}=={held[name].version}" for name in brought]


def imported_packages(script: Path, installed: Callable[[str], bool], beside: Path | None = None) -> list[str]:
    """Requirements of the libraries that `script` and its project's modules import and `installed(module)` denies.

    The project is that of the script `beside` which it runs, where one is given.
    """
    files = project_files(script, beside)
    local = {name for file in files for name in (file.stem, file.parent.name)} | {each.stem for each in files}
    texts = [program_text(file) for file in files]
    asked = {name: package for text in texts for name, package in packages_installed(text).items()}
    asked |= packages_of_project(beside or script)
    return sorted({found.package for found in missing_packages(texts, installed, local, asked)})


def is_here(module: str) -> bool:
    """Whether tpu-port's own environment has the module."""
    return importlib.util.find_spec(module) is not None


def in_a_set(module: str) -> bool:
    """Whether every environment has it, as a library that the releases of a set need."""
    return module in WITH_EVERY_SET


def wanted_releases(source: Path) -> tuple[Wanted | None, list[str]]:
    """The releases that `source` was written for, None where those here have all that it uses and nothing dates it.

    What porting reads counts as long as the script uses nothing that those releases don't have; else the newest set
    that has it all, within what the project pins; a note says so.
    """
    recipe = _recipe_of(source)
    dated = dict(recipe.versions) if recipe is not None else {}
    uses = [use for text in project_sources(source) for use in uses_in(text)]
    floors = {library: floor for library in LIBRARIES if (floor := _floor(library, uses))}
    raw = _outputs(source, uses)
    pins = {library: pins for library in LIBRARIES if (pins := _pins(source, library, floors, raw))}
    here = dict(of_this_environment(LIBRARIES))
    says = {name: said.partition(" ")[2].strip("()") for name, said in dated.items()}
    undated = all("newest table" in says.get(name, "newest table") for name in ("trl", "transformers"))
    bounded = any(sign not in (">=", ">", "!=") for each in pins.values() for sign, _ in each)
    if undated and not bounded and not _lacking(here, uses):
        return None, []
    known = "newest table" not in says.get("trl", "newest table")
    asked: dict[str, list[tuple[str, str]]] = dict(pins)
    ends: str | None = None  # the first transformers with which TRL's trainer can't train, whatever is pinned
    for text in project_sources(source):
        for release in plain_arguments(text).values():
            asked["trl"] = [*asked.get("trl", []), ("<", release)]
        if (clash := clashes(text, dated["trl"].partition(" ")[0] if known else "")) is not None:
            asked, ends = _with_transformers(asked, [("<", clash)]), clash
    if known:
        asked["trl"] = [("==", dated["trl"].partition(" ")[0])]
    older = False
    if "transformers" in dated and "newest table" not in says["transformers"]:
        release = dated["transformers"].partition(" ")[0]
        older = says["transformers"].endswith("the first that is known")  # than all of these is the pin
        pinned = older or f"transformers=={release}" in says["transformers"]
        unsloth = re.search(r"^\s*(?:from|import) unsloth\b", program_text(source), re.MULTILINE) is not None
        of_its_era = [*pins_of(era_of(release)), *_loads(recipe, release, unsloth=unsloth)]
        if ends is None or key(release) < key(ends):
            asked = _with_transformers(asked, [("==", release)] if pinned else of_its_era)
    if not older and "newest table" not in says.get("accelerate", "newest table"):  # which decides the order of rows
        asked["accelerate"] = [("==", dated["accelerate"].partition(" ")[0])]
    chosen = _chosen(uses, asked, pins)
    told = []
    found = {library: each.version for library, each in chosen.items()}
    if known and found["trl"] != dated["trl"].partition(" ")[0]:
        told.append(f"porting reads TRL {dated['trl'].partition(' ')[0]}, but the source needs another release")
    used = {use.name.partition(".")[0] for use in uses}
    own = {library: reason for library, reason in says.items() if reason and "newest table" not in reason}
    why = {library: own.get(library) or each.why for library, each in chosen.items() if library in used}
    if all(here.get(library) == found[library] for library in ("trl", "transformers", "peft")):
        return None, told
    return wanted_for(found, why), told


def _loads(recipe: Recipe | None, release: str, *, unsloth: bool) -> list[tuple[str, str]]:
    """The lower bound that the models of a script set which is dated by `release`: the first that loads them all."""
    found = []
    for each in (recipe, *recipe.others) if recipe is not None else ():
        family = find_family(hub_id=str(each.known("model.id", "")))
        first = first_release_of(family, str(each.known("model.id"))) if family is not None else ""
        if family is not None and first and key(first) <= key(release):
            found.append(MENDED_BY_UNSLOTH.get(family.name, first) if unsloth else first)
    return [(">=", max(found, key=key))] if found else []


def _chosen(
    uses: list[Use], asked: dict[str, list[tuple[str, str]]], pins: dict[str, list[tuple[str, str]]]
) -> dict[str, Chosen]:
    """The set under `asked`, under the project's own `pins` or under none: the first that lacks least.

    A pin older than every release that can be installed is the oldest of those, and one that is newer the newest. Pins
    that the script itself contradicts are let go one by one before all are.
    """
    found: list[dict[str, Chosen]] = []
    for limits in (asked, pins, {}):
        limits = {library: list(within_known(library, wanted)) for library, wanted in limits.items()}
        try:
            chosen = choose(uses, limits)
            found.append(chosen)
            contradicted = [library for library in limits if chosen[library].contradictions]
            if 0 < len(contradicted) < len(limits):
                found.append(choose(uses, {name: pin for name, pin in limits.items() if name not in contradicted}))
        except ValueError:  # no release that is known satisfies them
            continue
    return min(found, key=lambda chosen: sum(len(each.contradictions) for each in chosen.values()))


def _with_transformers(
    asked: dict[str, list[tuple[str, str]]], pins: list[tuple[str, str]]
) -> dict[str, list[tuple[str, str]]]:
    """What is asked for, within `pins` of transformers too.

    Where no release of it is both, what a project pins for its other scripts is let go: it is of one day.
    """
    together = [*asked.get("transformers", []), *pins]
    if any(all(fits(one, *pin) for pin in together) for one in history().releases("transformers")):
        return asked | {"transformers": together}
    return {"transformers": pins} | ({"trl": asked["trl"]} if "trl" in asked else {})


def _lacking(releases: dict[str, str], uses: list[Use]) -> bool:
    known = {library: version for library, version in releases.items() if library in LIBRARIES}
    return any(history().contradictions(known, uses).values())


def _floor(library: str, uses: list[Use]) -> str:
    """The oldest release that has what is used; "" where that is the oldest of all, or none has it."""
    able = history().fitting(library, uses)
    return able[0] if able and able[0] != history().releases(library)[0] else ""


def _outputs(source: Path, uses: list[Use]) -> str:
    """A notebook's raw text, whose outputs say what it ran on; "" where the cells can't run on that."""
    raw = source.read_text("utf-8", errors="replace") if is_notebook(source) else ""
    shown = {name: printed_by(raw, name) or installed_by(raw, name) for name in ("trl", "transformers")}
    found = {library: version for library, version in shown.items() if version}
    return "" if _lacking(found, uses) else raw


def _pins(source: Path, library: str, floors: dict[str, str], raw: str) -> list[tuple[str, str]]:
    text = program_text(source)
    return next((pins for _, pins in pins_of_project(source, text, library, raw, floors)), [])


def uses_in(text: str) -> list[Use]:
    """What a module uses of the libraries; nothing of text that isn't Python."""
    try:
        return uses_of(text)
    except (SyntaxError, ValueError):
        return []


def releases_of(source: Path) -> dict[str, str]:
    """Each library's release and why, as porting the source reads it; nothing of a script that can't be read."""
    recipe = _recipe_of(source)
    return dict(recipe.versions) if recipe is not None else {}


def keeps_dropout(source: Path) -> bool:
    """Whether a trainer of `source` leaves its dropout on unless the script says otherwise, as porting reads it; the
    release that it runs on may be a later one, which switches it off."""
    if "DPOTrainer" not in program_text(source) or (recipe := _recipe_of(source)) is None:
        return False
    found = (each.values.get("lora.disable_dropout") for each in (recipe, *recipe.others))
    return any(value is not None and value.kind == "default" and value.is_literal(False) for value in found)


def _recipe_of(source: Path) -> Recipe | None:
    """What porting reads of a script; where it is a module of its project that trains, with that."""
    from ...errors import InputError
    from ...front.beside.with_modules import port_with_modules
    from ...front.port_file import port_file
    from ...port import Options

    try:
        alone = port_file(source).recipe
        return alone if alone.versions else port_with_modules(source, Options()).recipe
    except InputError:
        return None


def _told(wanted: Wanted, about: dict[str, object]) -> str:
    releases = about.get("releases")
    releases = releases if isinstance(releases, dict) else {}
    names = [f"{name} {releases[name]}" for name in ("trl", "transformers", "peft") if name in releases]
    reasons = dict.fromkeys(reason for reason in wanted.why.values() if "of the day of" not in reason)
    return f"the source ran on {', '.join(names) or wanted}" + (f" ({'; '.join(reasons)})" if reasons else "")


def _missing(about: dict[str, object]) -> list[str]:
    missing = about.get("missing")
    return [f"not installed for the source: {', '.join(missing)}"] if isinstance(missing, list) and missing else []

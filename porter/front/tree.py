"""Port a folder: every training script in it with the project's modules that it imports; nothing is run or written."""

from __future__ import annotations

import ast
import os
import re
import tokenize
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path

from ..errors import InputError
from ..files import read_file
from ..own_imports import safe_children
from ..port import Options, Port
from ..recipe import Finding
from ..safety.limits import within_budget
from ..source.folder import SourceTree, imported_names, read_tree
from ..source.parsing import LARGEST
from .starters import starters, starts_itself

# A file with none of these trains nothing by itself: it is ported with the script that imports it.
# Bounded: a notebook's outputs may have words of megabytes.
TRAINS = re.compile(r"Trainer\w{0,80}\(|\.backward\(")
RUNS = re.compile(r"\.train\(|\.backward\(")
IS_TEST = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*\.py$|conftest\.py$)")
# Fewer scripts than this are ported sooner than further processes have started.
FEW = 3


@dataclass
class TreePort:
    """What porting a folder gave: `ports` by relative path (scripts and the modules that changed with them), `errors`
    for what can't be read or followed, `files` and `links` of the folder, all of which the output has."""

    root: Path
    files: list[Path]
    links: list[Path]
    ports: dict[Path, Port] = field(default_factory=dict)
    errors: dict[Path, InputError] = field(default_factory=dict)
    circles: list[list[Path]] = field(default_factory=list)

    @property
    def code(self) -> int:
        """The exit code: 2 when a file couldn't be read, 1 when something needs a person, else 0."""
        if any(error.fix for error in self.errors.values()):
            return 2
        done = ("ported", "unchanged")
        return 0 if all(port.status in done for port in self.ports.values()) else 1

    @property
    def changed(self) -> dict[Path, Port]:
        return {path: port for path, port in self.ports.items() if port.after != port.before}


def port_tree(root: Path, options: Options, leave_out: Sequence[Path] = (), jobs: int | None = None) -> TreePort:
    """Port the scripts of a folder. InputError when it has no Python file or an option is wrong."""
    tree = read_tree(root, leave_out)
    if not tree.sources:
        message = "has no Python file or notebook that git doesn't ignore"
        raise InputError(message, root, fix="name the folder with the training scripts")
    result = TreePort(root, tree.files, tree.links, errors=dict(tree.troubles))
    scripts = find_scripts(tree, result.errors, options.rules)
    _check_options(options)
    jobs = jobs or len(os.sched_getaffinity(0))
    if len(scripts) < FEW or jobs == 1:
        found = [_port(tree, path, options) for path in scripts]
    else:
        try:
            found = _in_processes(tree, options, scripts, min(jobs, len(scripts)))
        except BrokenProcessPool:  # killed for its memory, or by a library's crash: which one it was is found alone
            found = [_in_its_own(tree, options, path) for path in scripts]
    _collect(result, scripts, found)
    result.circles = tree.circles([path for path in scripts if path in result.ports])
    return result


def _training_imports(rules: Sequence[Path]) -> re.Pattern[str]:
    """An import of a library that trains, as the packs say."""
    from ..engine.packs.packs import load_packs
    from ..engine.packs.said_by_packs import facts_in, training_libraries

    names = "|".join(sorted(training_libraries(facts_in(load_packs(rules)))))
    return re.compile(rf"\b(?:import|from)\b[^\n#]*\b(?:{names})\b")


def _trainer_imports(rules: Sequence[Path]) -> re.Pattern[str]:
    """A trainer of a library: without one in any of a script's files, the files needn't be read as one."""
    from ..engine.packs.packs import load_packs
    from ..engine.script.fill_from_tables import trainer_libraries

    names = "|".join(sorted(trainer_libraries(load_packs(rules))))
    made = rf"\b(?:{names})\.[\w.]*Trainer\b"
    return re.compile(rf"\bfrom\s+(?:{names})\b[\w.]*\s+import\s+(?:\([^)]*|[^\n(]*)Trainer\b|{made}")


def find_scripts(tree: SourceTree, errors: dict[Path, InputError], rules: Sequence[Path] = ()) -> list[Path]:
    """The files that train: those that make a trainer and run it, or that import what makes it and run that, or, where
    only one does, start it by a function of the file.

    Every Python file is looked at; one that can't be read or parsed gets its line in `errors`.
    """
    texts: dict[Path, str] = {}
    raw: dict[Path, bytes] = {}
    for path in tree.sources:
        try:
            data = read_file(tree.root / path)
        except OSError as error:
            errors[path] = InputError(f"can't be read: {error.strerror}", tree.root / path, fix="check its permissions")
            continue
        except InputError as error:
            errors[path] = error
            continue
        texts[path], raw[path] = data.decode("utf-8", "replace"), data
    libraries = _training_imports(rules)
    makers = [path for path, text in texts.items() if TRAINS.search(text) and libraries.search(text)]
    scripts: dict[Path, None] = {}
    for path in makers:
        users = [user for user in _importers(tree, path) if RUNS.search(texts.get(user, "")) and user not in makers]
        users = [user for user in users if not IS_TEST.search(user.as_posix())]
        starter = _starter(tree, path, texts) if RUNS.search(texts[path]) else None
        if starter is not None and starter not in makers:
            scripts[starter] = None
            continue
        if RUNS.search(texts[path]) or not users:
            scripts[path] = None
        scripts |= dict.fromkeys(users if not RUNS.search(texts[path]) else ())
    for path, data in raw.items():  # the others only have to be Python
        if path not in scripts and path.suffix == ".py":
            _check_syntax(tree, path, data, errors)
    return sorted(scripts)


def _starter(tree: SourceTree, path: Path, texts: Mapping[Path, str]) -> Path | None:
    """The one file that starts what a file trains in its functions, and gives it what it trains with; None for none,
    for several, and where the file starts itself."""
    if path.suffix != ".py" or starts_itself(texts[path]):
        return None
    users = [user for user in _importers(tree, path) if not IS_TEST.search(user.as_posix()) and user.suffix == ".py"]
    named = [(user.as_posix(), texts[user]) for user in users if user in texts]
    found = starters(RUNS, texts[path], path.stem, named)
    return Path(found[0]) if len(found) == 1 else None


def _check_syntax(tree: SourceTree, path: Path, data: bytes, errors: dict[Path, InputError]) -> None:
    """A file that Python's own parser refuses is read as a port would read it, which says why.

    One that is too long for a port is generated; it is copied unread.
    """
    if len(data) > LARGEST:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data.decode(tokenize.detect_encoding(BytesIO(data).readline)[0]))
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        if not data.strip():
            return
        try:
            tree.module(path)
        except InputError as error:
            errors[path] = error


def _importers(tree: SourceTree, path: Path) -> list[Path]:
    """The files that import `path`, directly or through others, nearest first."""
    found: dict[Path, None] = {}
    pending = [path]
    while pending:
        for user in sorted(tree.users.get(pending.pop(0), ())):
            if user not in found and user != path:
                found[user] = None
                pending.append(user)
    return list(found)


def _check_options(options: Options) -> None:
    """A wrong option is told once, not for each script."""
    from ..engine.packs.engine_rules import check_names
    from ..engine.packs.packs import load_packs
    from ..engine.packs.said_by_packs import launchers
    from ..meshes import parse_mesh
    from ..source.launch.launch_config import SHELL, read_launch_config

    packs = load_packs(options.rules)
    check_names((*options.select, *options.ignore), packs)
    if options.mesh is not None:
        parse_mesh(options.mesh)
    if options.launch_config is not None and options.launch_config.suffix not in SHELL:
        read_launch_config(options.launch_config, counted=True, others=launchers(packs))


def _in_processes(
    tree: SourceTree, options: Options, scripts: Sequence[Path], jobs: int
) -> list[Port | tuple[str, ...]]:
    fresh = get_context("spawn")  # a fork of a process with threads may hang
    workers = partial(ProcessPoolExecutor, jobs, fresh, initializer=_start, initargs=(tree, options))
    with safe_children(), workers() as pool:  # safe from the first process on, which the pool starts when it is made
        return list(pool.map(_port_here, scripts))


def _in_its_own(tree: SourceTree, options: Options, path: Path) -> Port | tuple[str, ...]:
    try:
        return _in_processes(tree, options, [path], 1)[0]
    except BrokenProcessPool:
        return "ends the process that ports it", str(tree.root / path), "", "", "give it more memory; please report it"


_here: tuple[SourceTree, Options] | None = None


def _start(tree: SourceTree, options: Options) -> None:
    global _here
    _here = replace(tree, modules={}), options


def _port_here(path: Path) -> Port | tuple[str, ...]:
    assert _here is not None
    return _port(_here[0], path, _here[1])


def _port(tree: SourceTree, path: Path, options: Options) -> Port | tuple[str, ...]:
    """The port of one script, or its error in parts (an InputError loses them on the way between processes)."""
    try:
        return within_budget(lambda: _port_script(tree, path, options), tree.root / path, options.budget)
    except InputError as error:
        return error.message, error.path, str(error.line or ""), str(error.column or ""), error.fix


def _port_script(tree: SourceTree, path: Path, options: Options) -> Port:
    from ..engine.pipeline import port_module

    reached = tree.reached(path)
    options = replace(_of_script(options, path), imported=_imported_by_others(tree, reached))
    texts = {file: tree.module(file).text for file in reached}
    trainer = _trainer_imports(options.rules)
    alone = len(reached) == 1 or not any(trainer.search(text) for text in texts.values())
    port = port_module(tree.module(path) if alone else tree.merged(path), options)
    if alone or port.status not in ("unsupported", "unchanged"):
        return port
    # Nothing of it can be ported: each file says for itself why, or what was found with the others beside it.
    others = [port_module(tree.module(file), options) for file in reached[:-1] if TRAINS.search(texts[file])]
    others = [other for other in others if other.status != "unchanged"]
    alone_says = port_module(tree.module(path), options)
    seen_together = port.status == "unsupported" and port.findings and alone_says.status in ("unchanged", "unsupported")
    return replace(port if seen_together else alone_says, modules=tuple(others))


def _imported_by_others(tree: SourceTree, files: Sequence[Path]) -> frozenset[str]:
    """The names that the folder's other files import of these; of those that import a file itself, or all of its names,
    each of their words."""
    found: set[str] = set()
    for user in {user for file in files for user in tree.users.get(file, ())} - {*files}:
        for name in imported_names(tree.root / user):
            file, imported = tree.find(name, user) or (user, "")
            if file in files:
                words = (
                    [imported]
                    if imported
                    else re.findall(r"\w+", read_file(tree.root / user).decode("utf-8", "replace"))
                )
                found.update(words)
    return frozenset(found)


def _of_script(options: Options, path: Path) -> Options:
    """A launch script in shell says how the scripts that it names were launched, and nothing of the others."""
    from ..source.launch.launch_config import SHELL
    from ..source.launch.shell import read_launches

    file = options.launch_config
    if file is None or file.suffix not in SHELL:
        return options
    launched = {Path(launch.script).name for launch in read_launches(read_file(file).decode("utf-8", "replace"), file)}
    return options if path.name in launched else replace(options, launch_config=None)


def _collect(result: TreePort, scripts: Sequence[Path], found: Sequence[Port | tuple[str, ...]]) -> None:
    """The ports of all scripts; a module that two scripts need differently keeps what the first needs."""
    for path, port in zip(scripts, found, strict=True):
        if isinstance(port, tuple):
            message, place, line, column, fix = port
            numbers = [int(text) if text else None for text in (line, column)]
            result.errors[path] = InputError(message, place, numbers[0], numbers[1], fix)
            continue
        for other in port.modules:
            there = Path(other.path).relative_to(result.root)
            have = result.ports.get(there)
            if have is not None and have.after != other.after:
                port = _with_conflict(port, there)
            elif have is None:
                result.ports[there] = other
        have = result.ports.get(path)
        if have is not None and have.after != port.after:
            port = _with_conflict(port, path)
        result.ports[path] = port


def _with_conflict(port: Port, other: Path) -> Port:
    message = f"{other}: this script needs other code there than one that was ported before it."
    finding = Finding("TP190", "error", message, "Give each of them a module of its own.", 1, 1)
    return replace(port, status="partial", recipe=port.recipe.with_findings([finding]))

"""A pack's Python rule: one module, read once, and what it says of itself.

It names what it answers (`MATCHES`, `CLASSES`, `FUNCTIONS`, `PATTERNS`) and does it in `apply(site, porting)` when
the port is written, or in `read(site, reading)` when the script is read; or it says in `filled(site, training)` what a
table can't of a call that it describes (`TABLES`); or it declares steps, `@step(...)`.
docs/packs.md has the whole of it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...safety.limits import frames_of
from ...tables import rules_folder
from ..steps.step import Phase, Step
from .claims import check_match
from .patterns import Pattern, parse_pattern
from .rule_modules import run

if TYPE_CHECKING:
    from ..script.porting import Porting
    from ..script.sites import Site


NAMED = ("MATCHES", "CLASSES", "FUNCTIONS", "PATTERNS", "TABLES")  # in which a rule says what it answers


@dataclass(frozen=True)
class SiteRule:
    """A Python rule: `apply(site, porting)` says what stands at a matched place afterwards.

    It may return `porting.NOT_MINE` for a place that it leaves to the rule that it stands for. `read(site, reading)`
    yields what the script trains with. `steps` go through the whole script.
    """

    id: str
    title: str
    doc: str
    matches: tuple[str, ...]
    apply: Callable[[Site, Porting], object] | None
    path: Path
    positional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by match, as in a signature
    instead_of: tuple[str, ...] = ()  # ids of rules whose matches it takes over
    classes: tuple[str, ...] = ()  # classes of the file that extend one of these
    functions: tuple[str, ...] = ()  # functions of the file that one of these decorates
    patterns: tuple[Pattern, ...] = ()
    read: Callable[[Site, Any], Iterable[object] | None] | None = None
    pack: str = ""
    steps: tuple[Step, ...] = ()
    tables: tuple[str, ...] = ()  # classes whose calls `filled` is given
    filled: Callable[[Site, Any], object] | None = None
    part_of: bool = False  # whether `id` is another file's, or the pack's name, which this one belongs to

    @cached_property
    def line(self) -> int:
        """The line at which it says what it answers; 0 for none."""
        return _line_of(self.path, *NAMED)

    @property
    def built_in(self) -> bool:
        return self.path.is_relative_to(rules_folder())

    @property
    def claims(self) -> tuple[str, ...]:
        """What it answers, each kind in a spelling of its own; what it reads may be answered by another rule."""
        kinds = (
            *self.matches,
            *(f"class {name}" for name in self.classes),
            *(f"def {name}" for name in self.functions),
            *(f"`{pattern.text}`" for pattern in self.patterns),
        )
        return kinds if self.apply is not None else tuple(f"reading {name}" for name in kinds)


def load_python_rule(file: Path, pack: str, root: Path) -> SiteRule:
    """The rule in a file of the pack in `root`. InputError names the file, the line and what is wrong with it."""
    try:
        module = run(file, pack, root)
        part_of = getattr(module, "PART_OF", "")
        id, doc = part_of or module.ID, (module.__doc__ or "").strip()
        if not doc:
            raise InputError("has no docstring, which is the rule's page", file, 1, fix="see docs/packs.md")
        named = {name: _names(module, name, file) for name in NAMED}
        apply, read, filled = (getattr(module, name, None) for name in ("apply", "read", "filled"))
        steps = _steps(module, file, pack, id if id != pack else "")
        if apply is None and read is None and filled is None and not steps:
            said = "has neither apply(site, porting), read(site, reading) nor filled(site, training), nor a @step"
            raise InputError(said, file, 1, fix="write one")
        if not any(named.values()) and not (steps and apply is None and read is None):
            fix = "write MATCHES, CLASSES, FUNCTIONS, PATTERNS or TABLES"
            raise InputError("names nothing that it answers", file, _line_of(file, *NAMED) or 1, fix=fix)
        matches = tuple(_match(match, file, reads=apply is None) for match in named["MATCHES"])
        patterns = tuple(_pattern(text, file, _line_of(file, "PATTERNS")) for text in named["PATTERNS"])
        kinds = {
            kind: tuple(check_class(name, file, _line_of(file, kind)) for name in named[kind])
            for kind in ("CLASSES", "FUNCTIONS", "TABLES")
        }
        return SiteRule(
            id=id,
            title=doc.splitlines()[0],
            doc=doc,
            matches=matches,
            apply=apply,
            path=file,
            positional=_positional(getattr(module, "POSITIONAL", ()), (*matches, *kinds["FUNCTIONS"]), file),
            instead_of=tuple(getattr(module, "INSTEAD_OF", ())),
            classes=kinds["CLASSES"],
            functions=kinds["FUNCTIONS"],
            patterns=patterns,
            read=read,
            pack=pack,
            steps=steps,
            tables=kinds["TABLES"],
            filled=filled,
            part_of=bool(part_of),
        )
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, SyntaxError) and error.filename == str(file):
            at, said = error.lineno, error.msg
        else:
            frames = [frame for frame in frames_of(error.__traceback__) if frame.f_code.co_filename == str(file)]
            at, said = (_failed_at(error, file) if frames else 1), str(error)
        raise InputError(f"fails to load: {type(error).__name__}: {said}", file, at, fix="mend the rule") from None


def _steps(module: ModuleType, file: Path, pack: str, id: str) -> tuple[Step, ...]:
    """The steps that a rule's file declares itself. InputError for a function that can't be called as one."""
    found = []
    for value in vars(module).values():
        made = getattr(value, "step", None)
        if not isinstance(made, Step) or made.run.__module__ != module.__name__:
            continue
        line = made.run.__code__.co_firstlineno
        taken = [each for each in inspect.signature(made.run).parameters.values() if each.default is each.empty]
        if len(taken) != 1:
            said = f"has a step, {made.run.__name__}, that takes {len(taken)} arguments"
            raise InputError(said, file, line, fix="give it one, `porting`")
        if not isinstance(made.phase, Phase) or made.of not in ("trainer", "file"):
            said = f"has a step, {made.run.__name__}, of the phase {made.phase!r} and of {made.of!r}"
            raise InputError(said, file, line, fix='write a Phase, and of="trainer" or of="file"')
        if made.phase is Phase.FIND and made.of != "file":
            said = f"has a step, {made.run.__name__}, that finds, and isn't of the file"
            raise InputError(said, file, line, fix="write @step(Phase.FIND)")
        if made.phase in (Phase.READ, Phase.WRITE) and made.of != "trainer":
            said = f"has a step, {made.run.__name__}, that {made.phase.value}s, and isn't of a trainer"
            raise InputError(said, file, line, fix=f'write @step({made.phase}, of="trainer")')
        for thing in (made.reads, made.fills, made.settles):
            if not isinstance(thing, tuple) or not all(isinstance(name, str) for name in thing):
                said = f"has a step, {made.run.__name__}, that declares {thing!r}"
                raise InputError(said, file, line, fix='write a tuple of names, ("claimed names",)')
        found.append(replace(made, rule=id, pack=pack, path=file, line=line))
    return tuple(found)


def _failed_at(error: BaseException, file: Path) -> int:
    """The line of the rule's file at which it failed."""
    trace, line = error.__traceback__, 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _names(module: ModuleType, kind: str, file: Path) -> tuple[object, ...]:
    """`MATCHES` and its like: a tuple of texts."""
    found = getattr(module, kind, ())
    if isinstance(found, str) or not isinstance(found, tuple | list):
        raise InputError(f"{kind} is {found!r}", file, _line_of(file, kind), fix='write a tuple, ("our_library.f()",)')
    return tuple(found)


def _line_of(file: Path, *names: str) -> int:
    """The line of the first assignment of one of `names`, as the rule's text has it; 0 for none."""
    lines = file.read_text("utf-8", "replace").splitlines()
    start = re.compile(rf"(?:{'|'.join(names)})\s*[:=]")
    return next((number for number, line in enumerate(lines, 1) if start.match(line)), 0)


def _match(match: object, file: Path, *, reads: bool) -> str:
    """A match of a rule, checked. InputError, with its line, for what is none."""
    try:
        return check_match(match, file, python=True, reads=reads)
    except InputError as error:
        raise InputError(error.message, file, _line_of(file, *NAMED) or None, fix=error.fix) from None


def _pattern(text: object, file: Path, line: int) -> Pattern:
    try:
        return parse_pattern(text)
    except ValueError as error:
        fix = "write one expression with {holes}, `sum({p}.numel() for {p} in {model}.parameters())`"
        raise InputError(f"has a bad pattern, {text!r}: {error}", file, line, fix=fix) from None


def check_class(name: object, file: Path, line: int) -> str:
    """The import name of a class or a decorator. InputError for anything else."""
    if not isinstance(name, str) or re.fullmatch(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+", name) is None:
        raise InputError(f"names {name!r}", file, line, fix="write its import name, `our_library.Callback`")
    return name


def _positional(given: object, matches: tuple[str, ...], file: Path) -> Mapping[str, tuple[str, ...]]:
    """`POSITIONAL` of a rule: the names of a call's positional arguments, of all matches or by match."""
    by_match: dict[str, Any] = dict(given) if isinstance(given, Mapping) else dict.fromkeys(matches, given)
    for match, names in by_match.items():
        said = fix = ""
        if match not in matches:
            said, fix = f"POSITIONAL names {match!r}, which is none of its MATCHES", "mend it"
        elif not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            said, fix = f"POSITIONAL of {match} is {names!r}", 'write names, ("output_dir",)'
        if said:
            raise InputError(said, file, _line_of(file, "POSITIONAL"), fix=fix)
    return by_match

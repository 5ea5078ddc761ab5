"""Keywords of the config at Unsloth's trainers (`report_to=`, `logging_steps=`, `beta=`), which TRL's own refuse.

What it does: takes them out where the arguments say the same, and where Unsloth loses them: in a release that the
script names, and in any where they change nothing that is trained, which is said. In a named release that makes a
config of the arguments and of them, they hold, and not what the arguments say.
Why: Unsloth moves what the trainer doesn't take into a config that it makes, beside TRL 0.13 and later; from 2025.5.8
on it makes none where `args` is there already, and loses it (see lost_keywords.py).
"""

from __future__ import annotations

from porter.packs.api import Argument, Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, about, config_table, short_name

from ._release import is_patched, unsloth_version
from .lost_keywords import LOST_SINCE, arguments_call, loses_keywords, names_release

PART_OF = "TP704"

HOLDS_SINCE = (2024, 12, 4)  # the first release that was looked at which makes such a config
BESIDE_TRL = (0, 13)

# What changes no weight: how often is logged, and where to.
QUIET = frozenset(
    "report_to logging_steps logging_strategy logging_dir logging_first_step run_name disable_tqdm log_level".split()
)


@step(
    Phase.READ,
    of="trainer",
    reads=("arguments", "arguments_object"),
    settles=("script values",),
    fills=("moved keywords",),
)
def settle_moved(porting: Training) -> None:
    """Take back that a trainer has no such keyword where it is decided what becomes of it."""
    site, rule = porting.trainer, config_table(porting)
    if site is None or rule is None or not (is_patched(porting, site) or _holds(porting)):
        return
    for argument in site.arguments:
        source, row = f"{short_name(site)}.{argument.name}", rule.table.row(argument.name)
        if not porting.findings.has(source) or row is None:
            continue
        if _says_the_same(porting, argument):
            porting.withdraw(source)
            porting.change_fate(source, fate="dropped", target="", reason="the arguments say the same")
        elif loses_keywords(porting) and (names_release(porting) or argument.name in QUIET):
            since = ".".join(map(str, LOST_SINCE))
            which = f"Unsloth {unsloth_version(porting)}" if names_release(porting) else f"Unsloth from {since} on"
            porting.withdraw(source)
            porting.change_fate(source, fate="dropped", target="", reason=f"{which} loses it")
            message = (
                f"{which} loses {source}={argument.text} beside the arguments; it has no effect in the port either."
            )
            fix = "Give it to the arguments if it is meant."
            porting.find(PART_OF, "warning", message, fix, argument.line, argument.column)

        elif _holds(porting):
            _hold(porting, source, argument)


def _holds(porting: Training) -> bool:
    """Whether the release that is named makes a config of what the arguments say and of what the trainer gets."""
    trl = version_key(plain_version(porting.versions.get("trl", "")) or "0")
    named = names_release(porting) and arguments_call(porting) is not None and not porting.arguments_object
    return named and trl >= BESIDE_TRL and HOLDS_SINCE <= version_key(unsloth_version(porting)) < LOST_SINCE


def _hold(porting: Training, source: str, argument: Argument) -> None:
    """Read a keyword as one of the config, which the arguments' own gives way to."""
    made, rule, which = arguments_call(porting), config_table(porting), f"Unsloth {unsloth_version(porting)}"
    row = rule.table.row(argument.name) if rule is not None else None
    if made is None or row is None or not row.place:
        return
    fate, reason = row.verdict(argument.value.literal) if argument.value.known else (row.fate, row.reason)
    if fate == "manual":
        return
    porting.withdraw(source)
    porting.change_fate(source, fate=fate, target=row.target, reason=reason)
    if made.argument(argument.name) is not None:
        reason = f"{which} takes the trainer's own"
        porting.change_fate(f"{short_name(made)}.{argument.name}", fate="dropped", target="", reason=reason)
    porting.fill({row.place: argument.value})
    for field in [field for field in porting.fields if field.source == source]:
        about(porting, field, [row.place])
    message = f"{which} takes {source}={argument.text} over what the arguments say, and so does the port."
    porting.find(PART_OF, "info", message, "Give it to the arguments alone.", argument.line, argument.column)


def _says_the_same(porting: Training, argument: Argument) -> bool:
    """Whether the trainer's arguments hold what a keyword beside them says."""
    made = arguments_call(porting)
    held = porting.arguments_object or (made.variable if made is not None else None)
    if held and argument.text == f"{held}.{argument.name}":
        return True
    own = made.argument(argument.name) if made is not None else None
    if own is None:
        return False
    known = own.value.known and argument.value.known
    return known and own.value.literal == argument.value.literal

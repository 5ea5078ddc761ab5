"""Keywords at Unsloth's trainers that TRL's own refuse: the config's (`report_to=`, `beta=`), and `tokenizer=`.

What it does: takes them out where the arguments say the same, and where Unsloth loses them: in a release that the
script names, and in any where they change nothing that is trained, which is said. In a named release that makes a
config of the arguments and of them, they hold, and not what the arguments say. What neither the trainer nor its config
has is lost by every release in which the script runs. `tokenizer=` is the trainer's processing_class.
Why: Unsloth moves what the trainer doesn't take into a config that it makes, beside TRL 0.13 and later; from 2025.5.8
on it makes none where `args` is there already, and loses it (see lost_keywords.py). Before, a config that has no such
keyword raises.
"""

from __future__ import annotations

from porter.packs.api import Argument, Phase, Site, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, about, config_table, plain_versions, short_name, table_of

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
        if not porting.findings.has(source):
            continue
        if argument.name == "tokenizer":
            _rename(porting, site, argument)
        elif argument.name in table_of(porting, site).table.rows(plain_versions(porting)):
            continue  # it is the trainer's own, and what was found is another thing
        elif row is None:
            _lose_unknown(porting, site, argument)
        elif _says_the_same(porting, argument):
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


def _rename(porting: Training, site: Site, argument: Argument) -> None:
    """`tokenizer=` of a class that never had it: Unsloth hands it on as processing_class."""
    row, source = table_of(porting, site).table.row("processing_class"), f"{short_name(site)}.{argument.name}"
    if row is None or not is_patched(porting, site) or site.argument("processing_class") is not None:
        return
    porting.withdraw(source)
    reason = "Unsloth hands it on as processing_class"
    porting.change_fate(source, fate="exact", target=row.target, reason=reason)
    porting.fill({row.place: argument.value})
    for field in [field for field in porting.fields if field.source == source]:
        about(porting, field, [row.place])


def _lose_unknown(porting: Training, site: Site, argument: Argument) -> None:
    """A keyword that neither the trainer nor its config has: every release of Unsloth that runs with it loses it."""
    short, since = short_name(site), ".".join(map(str, LOST_SINCE))
    if not is_patched(porting, site) or argument.name.startswith("argument ") or site.argument("args") is None:
        return
    if names_release(porting) and version_key(unsloth_version(porting)) < LOST_SINCE:
        return  # the GPU run ends there
    source = f"{short}.{argument.name}"
    porting.withdraw(source)
    porting.change_fate(
        source, fate="dropped", target="", reason="Unsloth loses what neither TRL's class nor its config has"
    )
    lost = f"neither {short} nor its config has it; Unsloth loses it from {since} on, and ends before."
    message = f"{source}={argument.text}: {lost}"
    porting.find(PART_OF, "warning", message, "Take it out; it has no effect.", argument.line, argument.column)


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

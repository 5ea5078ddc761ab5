"""Keywords of the config at Unsloth's trainers (`report_to=`, `logging_steps=`, `beta=`), which TRL's own refuse.

What it does: takes them out where the arguments say the same, and where Unsloth loses them: in a release that the
script names, and in any where they change nothing that is trained, which is said.
Why: Unsloth moves what the trainer doesn't take into a config that it makes; from 2025.5.8 on it makes none where
`args` is there already, and loses it (see lost_keywords.py).
"""

from __future__ import annotations

from porter.packs.api import Argument, Phase, step
from porter.packs.training import Training, config_table, short_name

from ._release import is_patched, unsloth_version
from .lost_keywords import LOST_SINCE, arguments_call, loses_keywords, names_release

PART_OF = "TP704"

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
    if site is None or rule is None or not is_patched(porting, site):
        return
    for argument in site.arguments:
        source = f"{short_name(site)}.{argument.name}"
        if not porting.findings.has(source) or rule.table.row(argument.name) is None:
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

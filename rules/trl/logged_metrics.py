"""What TRL's trainers log beside the loss and the port's log lines don't have: logits that are means over padding.

It is said where the script reads them, or has a tracker.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Site, step
from porter.packs.runtime import trl_lines
from porter.packs.script import plain_version
from porter.packs.training import Training, rewritten_by, table_of

PART_OF = "trl"

LOGITS = ("logits/chosen", "logits/rejected")
NO_TRACKER: tuple[object, ...] = (None, "none", [], ["none"])
OF_ROWS = "kl of the log lines is a mean over tokens, as TRL's; Unsloth's is over the means of the completions"
ROWS = (".logging_steps", ".report_to")  # where it is said, the first that the script sets


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_logged(porting: Training) -> None:
    """A reason at the first of `ROWS`, or an info where the script sets neither."""
    site = porting.trainer
    if site is None or porting.loop is not None:
        return
    if porting.known("log.strategy") == "no":
        return
    kind = table_of(porting, site).kind
    if _is_rewritten(porting, site):  # Unsloth's logs none of these, and its own divergence
        if kind == "grpo" and porting.known("loss.beta") != 0:
            _say(porting, site, OF_ROWS)
        return
    release = plain_version(porting.versions.get("trl", ""))
    if kind in ("dpo", "kto", "orpo", "cpo") and not trl_lines(kind, release).logits:
        _say_logits(porting, site)


def _say_logits(porting: Training, site: Site) -> None:
    """Those that are means over padding, too, whose logits depend on how far the GPU run padded."""
    said = f"the log lines have TRL's rewards and logps, not its {' and '.join(LOGITS)}"
    if any(name in porting.module.text for name in LOGITS):
        message = f"The script reads {' and '.join(LOGITS)}: the port's log lines haven't got them."
        porting.find(site.rule, "warning", message, "Leave them out.", site.line, site.column, todo=False)
    elif porting.known("log.report_to", None) not in NO_TRACKER:
        _say(porting, site, said)


def _say(porting: Training, site: Site, said: str) -> None:
    for suffix in ROWS:
        if rows := [row for row in porting.fields if row.source.endswith(suffix)]:
            for row in rows:
                porting.change_fate(row.source, reason=f"{row.reason}; {said}" if row.reason else said)
            return
    porting.find(site.rule, "info", f"{said[0].upper()}{said[1:]}.", "", site.line, site.column)


def _is_rewritten(porting: Training, site: Site) -> bool:
    return isinstance(site.node, cst.Call) and bool(rewritten_by(porting, site.node.func))

"""What TRL's trainers log beside the loss and the port's log lines don't have: entropy, accuracy and their like."""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Site, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, rewritten_by, table_of

PART_OF = "trl"

# Kind of trainer → which release of TRL's logs it first.
_SAMPLED = {"clip_ratio": (0, 16), "entropy": (0, 20)}
LOGGED = {
    "sft": {"mean_token_accuracy": (0, 15), "entropy": (0, 22)},
    "dpo": {"mean_token_accuracy": (0, 29), "entropy": (0, 29)},
    "kto": {"entropy": (1, 8)},
    "grpo": _SAMPLED,
    "rloo": _SAMPLED,
}
WITHOUT_LOGITS = ("mean_token_accuracy", "entropy")  # not with Liger's kernels
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
    logged = LOGGED.get(kind, {})
    names = [name for name, since in logged.items() if not release or version_key(release) >= since]
    liger = porting.config.argument("use_liger_kernel", "use_liger") if porting.config is not None else None
    if liger is not None and not liger.value.is_literal(None, False):
        names = [name for name in names if name not in WITHOUT_LOGITS]
    if names:
        _say(porting, site, f"the log lines have TRL's loss, not its {_listed(names)}")


def _say(porting: Training, site: Site, said: str) -> None:
    for suffix in ROWS:
        if rows := [row for row in porting.fields if row.source.endswith(suffix)]:
            for row in rows:
                porting.change_fate(row.source, reason=f"{row.reason}; {said}" if row.reason else said)
            return
    porting.find(site.rule, "info", f"{said[0].upper()}{said[1:]}.", "", site.line, site.column)


def _is_rewritten(porting: Training, site: Site) -> bool:
    return isinstance(site.node, cst.Call) and bool(rewritten_by(porting, site.node.func))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]

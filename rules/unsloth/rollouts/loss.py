"""Unsloth's own loss of GRPO, which it puts in the place of TRL's (UnslothEfficientGRPO in unsloth_zoo).

What it does: has the port take the loss of each row of a micro-step apart (`loss_parts=`), leave a step's gradient
undivided, and divide logits by the temperature, as that release does; says so, and what its keyword
`unsloth_num_chunks` becomes.
Why: until 2026.2.1 it takes the mean over parts of a micro-step, each row unless that keyword says fewer. So `bnpo` is
the mean of the rows' means, and `dapo` is divided by the rows once more. Its gradient isn't that of the loss that it
returns: until 2025.10.12 what the Trainer divides that by, gradient_accumulation_steps, doesn't reach it.
"""

from __future__ import annotations

from porter.packs.api import Phase, Porting, step
from porter.packs.runtime import unsloth_grpo
from porter.packs.script import find_family, usual_texts, version_key
from porter.packs.training import Training, about, short_name, table_of
from porter.packs.writing import quoted

from .._release import is_patched, own_default, unsloth_version
from .engine import OWN

PART_OF = "TP703"

PARTS = "loss.parts"
CHUNKS = "unsloth_num_chunks"
DIVIDES_BY_TEMPERATURE = (2025, 6, 5)  # the first that gives its loss the temperature
OVER_ROWS = ("grpo", "dr_grpo", "sapo", "luspo")  # the same loss in any number of equal parts
# Where the Recipe holds what its config settles.
PLACES = {
    "loss_type": "loss.type",
    "epsilon_high": "loss.epsilon_high",
    "beta": "loss.beta",
    "scale_rewards": "reward.scale",
    "mask_truncated_completions": "rollout.mask_truncated",
}
KNOWN_SINCE = {"dapo": unsloth_grpo.DIVIDES_STEPS, "cispo": (2026, 2, 1), "sapo": (2026, 2, 1)}


@step(
    Phase.READ,
    of="trainer",
    reads=("script values", "model", "model.id", "config", "arguments_object"),
    fills=("rollout.mask_truncated", "loss.epsilon_high", "loss.type", "loss.beta", "reward.scale", PARTS),
)
def settle_loss(porting: Training) -> None:
    """Which loss it takes, in how many parts, and what it sets beside those of the DAPO and Dr. GRPO papers."""
    if not is_its_own(porting):
        return
    release = unsloth_version(porting)
    if porting.arguments_object:
        if unsloth_grpo.loss_parts(release) is not None and _is_efficient(porting):
            _say_parts(porting, release, "", "loss_parts=-1 of its batches", "each row")
        return
    given, scale = str(porting.known("loss.type", "")).lower(), porting.value("reward.scale")
    asked = given if given != "dapo" or porting.given("loss.type") else ""
    changed, more = unsloth_grpo.settled_by_config(release, asked, scale is not None and scale.is_literal(True))
    kind = str(changed.get("loss_type", given))
    early = version_key(release) < unsloth_grpo.READS_LOSS_TYPE
    if kind == given and not early:
        changed.pop("loss_type", None)
    values = {PLACES[name]: value for name, value in (changed | more).items()}
    porting.fill({place: own_default(quoted(v) if isinstance(v, str) else repr(v)) for place, v in values.items()})
    if early:
        first = ".".join(map(str, unsloth_grpo.READS_LOSS_TYPE))
        reason = f"Unsloth before {first} takes each completion's mean, whatever it says"
        porting.change_fate(".loss_type", fate="dropped", target="", reason=reason)
    elif kind != given:
        _say_kind(porting, given, kind, release)
    if "beta" in changed:
        porting.change_fate(".beta", fate="dropped", target="", reason=f"Unsloth {release} sets it to 0 for dapo")
    _say_unknown(porting, kind, release)
    _settle_parts(porting, kind, release)


def _say_kind(porting: Training, given: str, kind: str, release: str) -> None:
    """What becomes of the keyword for which the config trains with another loss: bnpo before its loss knows dapo."""
    reason = f"Unsloth {release} trains with {kind} for {given}"
    porting.change_fate(".loss_type", fate="changed", target="rt.PolicyLoss(loss_type=)", reason=reason)
    for row in [row for row in porting.fields if row.source.endswith(".loss_type")]:
        about(porting, row, ["loss.type"])


def _settle_parts(porting: Training, kind: str, release: str) -> None:
    """`loss_parts` of the batches, where it changes what is trained; the fate of Unsloth's keyword for it."""
    config = porting.config
    asked = config.argument(CHUNKS) if config is not None else None
    parts = unsloth_grpo.loss_parts(release) if _is_efficient(porting) else None
    source = f"{short_name(config)}.{CHUNKS}" if config is not None else ""
    if asked is not None and porting.findings.has(source):
        porting.withdraw(source)
        reason = f"Unsloth {release} takes the loss of a micro-step at once"
        if parts is not None:
            reason = "this loss is the same in any number of parts"
        porting.change_fate(source, fate="dropped", target="", reason=reason)
    if parts is None or kind in OVER_ROWS:
        return
    porting.fill({PARTS: asked.value if asked is not None else own_default(str(parts))})
    if asked is not None:
        porting.change_fate(source, fate="exact", target="rt.GRPOBatches(loss_parts=)", reason="")
        for field in [field for field in porting.fields if field.source == source]:
            about(porting, field, [PARTS])
    whole = asked is None or asked.value.is_literal(-1)
    held = f"loss_parts={asked.text if asked is not None else parts}"
    _say_parts(porting, release, kind, held, "each row" if whole else "parts")


def _say_parts(porting: Training, release: str, kind: str, held: str, parts: str) -> None:
    assert porting.trainer is not None
    message = f"Unsloth {release} takes the loss of {parts} of a micro-step apart, and the mean of these; so does the"
    message += f" port ({held})."
    if kind == "dapo":
        message += " That divides dapo by their number once more."
    elif parts == "each row":
        message += f" {kind or 'bnpo'} is the mean of the rows' own means then, as loss_type grpo."
    how = "Give from_args loss_parts=None" if porting.arguments_object else "Take loss_parts out"
    fix = f"{how} for the loss of all tokens together, TRL's and that of Unsloth from 2026.2.1 on."
    porting.find(PART_OF, "info", message, fix, porting.trainer.line, porting.trainer.column)


def _say_unknown(porting: Training, kind: str, release: str) -> None:
    """A warning where the GPU run ends at its first loss."""
    site, value = porting.trainer, porting.value("loss.type")
    since = KNOWN_SINCE.get(kind)
    if since is None or site is None or value is None or version_key(release) >= since:
        return
    origin = value.origin if value.origin is not None and value.origin.line else None
    line, column = (origin.line, origin.column) if origin is not None else (site.line, site.column)
    message = (
        f"Unsloth {release} knows no loss_type {kind}: the GPU run ends at its first step. The port trains with it."
    )
    fix = (
        f"Pin the release that it ran on (pip install unsloth==VERSION): {'.'.join(map(str, since))} and later know it."
    )
    porting.find(PART_OF, "warning", message, fix, line, column)


@step(Phase.WRITE, of="trainer", reads=("model", "model.id"), fills=("parts",))
def settle_division(porting: Porting) -> None:
    """What the loss divides by: the temperature from some release on, and the micro-steps of a step."""
    if not is_its_own(porting):
        return
    release = unsloth_version(porting)
    porting.code["divides_by_temperature"] = str(version_key(release) >= DIVIDES_BY_TEMPERATURE)
    if unsloth_grpo.sums_micro_steps(release) and _is_efficient(porting):
        porting.code["sums_micro_steps"] = f"Unsloth {release}"


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_logged(porting: Porting) -> None:
    """What its loss adds to the log lines, whatever `beta` is."""
    if not is_its_own(porting) or porting.known("log.strategy") == "no":
        return
    site = porting.trainer
    assert site is not None
    message = "The log lines have no kl and no completion_length, which Unsloth's loss of GRPO logs."
    porting.find(PART_OF, "info", message, "", site.line, site.column)


def is_its_own(porting: Training) -> bool:
    site = porting.trainer
    if site is None or porting.loop is not None or not is_patched(porting, site):
        return False
    return table_of(porting, site).kind == "grpo"


def _is_efficient(porting: Training) -> bool:
    """Whether the loss is that of UnslothEfficientGRPO: of all models since 2025.6.6, before of those that aren't
    loaded by FastModel."""
    return version_key(unsloth_version(porting)) >= unsloth_grpo.OF_ALL_MODELS or is_own_model(porting)


def is_own_model(porting: Training) -> bool:
    """Whether the model is one that FastLanguageModel trains by Unsloth's own forward, as far as its name is known."""
    site = porting.model
    if site is None:
        return True
    full = site.argument("full_finetuning")
    if site.qualified.startswith("unsloth.FastModel.") or (full is not None and full.value.is_literal(True)):
        return False
    held = porting.value("model.id")
    names = [] if held is None else [str(held.literal)] if held.known else usual_texts(porting.module, held.code)
    families = [find_family(hub_id=name) for name in names]
    return all(family is None or OWN & set(family.model_types) for family in families)

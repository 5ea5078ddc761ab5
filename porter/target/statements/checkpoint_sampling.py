"""Sampling settings that the checkpoint's generation_config.json replaces, by the source's transformers and TRL."""

from __future__ import annotations

from collections.abc import Collection

from ...engine.script.fill_from_tables import plain_version
from ...engine.script.porting import Porting
from ...engine.script.training import Training
from ...recipe import Value
from ...runtime.facts import releases
from ...runtime.facts.generation_settings import DEFAULTS
from ...text.expressions import choice, quoted
from ...text.layout import Arg

# Recipe place → GenerationConfig's name.
SETTINGS = {
    "rollout.temperature": "temperature",
    "rollout.top_k": "top_k",
    "rollout.top_p": "top_p",
    "rollout.min_p": "min_p",
    "rollout.repetition_penalty": "repetition_penalty",
}


def checkpoint_fills(porting: Porting, told: Collection[str] = ()) -> Arg | None:
    """`checkpoint_fills="defaults"` where the source sampled so, and an info that says with what.

    None where vLLM sampled, which is told everything, and where no setting can be one that is replaced. `told`: the
    settings that the trainer gives itself, as no keyword of its config says.
    """
    trl, transformers = (plain_version(porting.versions.get(name, "")) or None for name in ("trl", "transformers"))
    fills = releases.release(trl, transformers).checkpoint_fills
    vllm = sampled_by_vllm(porting)
    if fills is None or (vllm is not None and vllm.known and vllm.literal):
        return None
    settings = {place: name for place, name in SETTINGS.items() if name not in told}
    open_ = [name for place, name in settings.items() if _is_replaced(porting, place, name, fills)]
    if fills == "unset" and "top_k" not in open_:
        return None  # a checkpoint's min_p is all that is left, and none of a known family has one
    asked = vllm.code if vllm is not None and not vllm.known else ""
    _say(porting, fills, transformers or "", open_, asked)
    code = choice(asked, "None", quoted(fills)) if asked else quoted(fills)
    return Arg(code, "checkpoint_fills", "# from its generation_config.json, as this release did")


def sampled_by_vllm(porting: Porting) -> Value | None:
    """Whether vLLM sampled: TRL's `use_vllm`, or an engine beside the model, which samples whatever that says."""
    return porting.value("rollout.engine") or porting.value("rollout.vllm")


def _is_replaced(porting: Porting, place: str, name: str, fills: str) -> bool:
    """Whether a setting may be one that the checkpoint's takes the place of."""
    value = porting.value(place)
    if value is None:  # before there was a keyword: GenerationConfig's own default
        return fills == "defaults"
    return not value.known or value.literal == (DEFAULTS[name] if fills == "defaults" else None)


def _say(porting: Porting, fills: str, transformers: str, names: list[str], vllm: str) -> None:
    site = porting.trainer
    assert site is not None
    origins = [value.origin for place in SETTINGS if (value := porting.value(place)) is not None and value.origin]
    origin = next((origin for origin in origins if origin.line), None)
    line, column = (origin.line, origin.column) if origin else (site.line, site.column)
    which = "is worth what GenerationConfig has anyway" if fills == "defaults" else "is None"
    message = (
        f"transformers {transformers} samples with what the checkpoint's generation_config.json says where a setting "
        f"{which} ({', '.join(names)}): so does the port"
        + (f", unless {vllm}: vLLM was told every setting." if vllm else ".")
    )
    fix = "It says at its start with what. Delete checkpoint_fills= to sample with the keywords as they stand."
    porting.find(site.rule, "info", message, fix, line, column)


def samples_one_prompt(porting: Training) -> bool:
    """Whether the completions that are sampled together surely have one prompt."""
    if porting.arguments_object or porting.given("rollout.steps") or porting.given("rollout.batch_size"):
        return False
    apart = releases.release(plain_version(porting.versions.get("trl", "")) or None).dealing == "in_order"
    rows, generations = porting.known("batch.per_device"), porting.known("rollout.generations")
    steps = 1 if apart else porting.known("batch.accumulation", 1)
    known = isinstance(rows, int) and isinstance(steps, int) and isinstance(generations, int)
    return known and rows * (steps or 1) <= generations

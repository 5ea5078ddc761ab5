"""GRPO that samples with the vLLM which Unsloth makes beside a model, fast_inference=True.

What it does: says whether vLLM sampled, which decides the settings and the end tokens of completions.
Why: Unsloth's GRPO trainer samples with that vLLM, whatever use_vllm says. Its releases before 2025.9.6 make none for a
model that FastLanguageModel hands on to FastModel, Gemma 3: there fast_inference has no effect.
"""

from __future__ import annotations

from porter.packs.api import Origin, Phase, Value, step
from porter.packs.script import find_family, usual_texts
from porter.packs.training import Training, in_reach

from .._release import is_before, is_patched, unsloth_version

PART_OF = "TP703"

ENGINE = "rollout.engine"
OWN = frozenset({"llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3"})  # those that FastLanguageModel loads itself
HANDED_ON_SINCE = "2025.9.6"


@step(Phase.READ, of="trainer", reads=("model", "config", "model.id"), fills=(ENGINE,))
def find_engine(porting: Training) -> None:
    """Whether the model has a vLLM of its own, as a value of the Recipe."""
    site, trainer = porting.model, porting.trainer
    engine = site.argument("fast_inference") if site is not None else None
    if site is None or trainer is None or engine is None or engine.value.is_literal(None, False):
        return
    if not is_patched(porting, trainer):
        return
    families = [find_family(hub_id=name) for name in _names(porting)]
    others = [family for family in families if family is not None and not OWN & set(family.model_types)]
    if not others or len(others) < len(families) or not is_before(porting, HANDED_ON_SINCE):
        if engine.value.known or in_reach(site.scope, trainer.scope):
            porting.fill({ENGINE: engine.value})
        return
    porting.fill({ENGINE: Value("literal", "False", Origin(porting.module.path, engine.line, engine.column, PART_OF))})
    release = unsloth_version(porting)
    message = f"fast_inference: Unsloth {release} makes no vLLM for {others[0].architectures[0]}; the GPU run samples "
    message += "with generate, as the port does."
    porting.find(PART_OF, "info", message, "", engine.line, engine.column)


def _names(porting: Training) -> list[str]:
    held = porting.value("model.id")
    if held is None:
        return []
    return [str(held.literal)] if held.known else usual_texts(porting.module, held.code)

"""The loss of models whose micro-batches transformers averages one by one.

`Gemma3ForConditionalGeneration` and Gemma 4's class, which AutoModelForCausalLM loads for all but the text models, have
`accepts_loss_kwargs = False`: a step's gradient is the mean of its micro-batches' means, not the mean over its tokens.
Mistral's class took no number of tokens under transformers 4.46 and 4.47 either.
"""

from __future__ import annotations

import re

from ...engine.reading.model_menus import menu_of
from ...engine.script.fill_from_tables import plain_version
from ...engine.script.porting import Porting
from ...runtime.facts.releases import release
from ...runtime.facts.releases.mistral_means import MULTIMODAL
from ...source.project.usual.model_names import usual_texts
from ...text.expressions import quoted
from ...text.layout import Arg

FAMILIES = ("gemma3", "gemma4")
OF_TEXT = re.compile(r"\bGemma[34]\w*ForCausalLM\b")
TEXT_ONLY = re.compile(r"gemma-3-(?:1b|270m)|functiongemma", re.IGNORECASE)
NAMED = re.compile(r"gemma[-_ ]?[34]", re.IGNORECASE)
APART = '"micro_batch"'


def own_mean(porting: Porting) -> str:
    """The code of `mean_over=` for a model that may have a mean of its own; empty where it has none, or nothing
    differs."""
    if may_be_mistral(porting):
        return APART if porting.recipe.family else _asked(porting)
    version, site = plain_version(porting.versions.get("transformers", "")), porting.model
    one = porting.value("batch.accumulation")
    alone = (one is None or one.is_literal(1)) and porting.known("mesh.processes", 1) == 1
    if not version or alone or porting.loop is not None or not release(None, version).averages_multimodal:
        return ""
    if site is not None and (site.qualified.startswith("unsloth.") or OF_TEXT.search(site.qualified)):
        return ""
    name = porting.known("model.id")
    if porting.recipe.family not in (*FAMILIES, None) or (isinstance(name, str) and TEXT_ONLY.search(name)):
        return ""
    if isinstance(name, str) and MULTIMODAL.match(name):
        return APART
    if porting.recipe.family is None and not _may_be_multimodal(porting):
        return ""
    return _asked(porting)


def may_be_mistral(porting: Porting) -> bool:
    """Whether the model is a Mistral, or may be, under a release that counts no tokens of its micro-batches.

    Those have a mean of their own also where each is a step: a row's first token isn't counted in it.
    """
    version = plain_version(porting.versions.get("transformers", ""))
    if not version or porting.loop is not None:
        return False
    known = release(None, version, porting.counted_by)
    return known.counts_tokens and not known.counts_tokens_of(porting.recipe.family or "mistral")


def _asked(porting: Porting) -> str:
    """The code that asks the model when the port runs."""
    version = plain_version(porting.versions.get("transformers", ""))
    return f"{porting.rt('mean_over')}({porting.names.model}, {quoted(version)})"


def _may_be_multimodal(porting: Porting) -> bool:
    """Whether a model of no known family may be one: the run decides, but for a menu that has none; else the script,
    or a file of settings that its name is read from, tells of one."""
    value = porting.value("model.id")
    if value is not None and value.kind == "expression":
        menu = menu_of(porting, value)
        return menu is None or any(NAMED.search(name) and not TEXT_ONLY.search(name) for name in menu)
    if NAMED.search(porting.module.text):
        return True
    code = porting.text("model.id") if value is not None else ""
    return any(NAMED.search(text) for text in usual_texts(porting.module, code))


def mean_arguments(porting: Porting) -> list[Arg]:
    """`mean_over="micro_batch"` of the batches, where the model's own loss is that."""
    code = own_mean(porting)
    version = plain_version(porting.versions.get("transformers", ""))
    mistral = may_be_mistral(porting)
    if code == APART:
        said = f"Mistral's loss in transformers {version}" if mistral else "a multimodal model's loss in transformers"
    else:  # the run's model decides
        said = f"by micro-batch for {'Mistral' if mistral else 'multimodal models'} alone"
    return [Arg(code, "mean_over", f"# {said}")] if code else []

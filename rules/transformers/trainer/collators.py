"""Data collators of transformers' Trainer: those of the library read by their tables, the script's own left alone.

A collator is Python that runs on the host, so that one of the script's own is called as it is, torch included.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Argument, Phase, Porting, Site, step
from porter.packs.script import Module
from porter.packs.training import Training, fill_site, plain_versions, short_name, table_of
from porter.packs.writing import stays

PART_OF = "transformers"

LANGUAGE_MODELING = "transformers.DataCollatorForLanguageModeling"
OF_TRAINER = ("causal-lm", "loop")  # trainers that call their own collator
# Collators of transformers that make something else than rows with labels of a causal language model.
OTHER_TASKS = (
    "DataCollatorForTokenClassification",
    "DataCollatorForWholeWordMask",
    "DataCollatorForPermutationLanguageModeling",
    "DataCollatorForSOP",
    "DataCollatorForMultipleChoice",
)


@step(Phase.READ, of="trainer", reads=("script values",))
def read_collators(porting: Training) -> None:
    """Fates for the keywords of every collator of the file; what trains another kind of model is refused."""
    trainer, versions = porting.trainer, plain_versions(porting)
    assert trainer is not None
    if table_of(porting, trainer).kind != "causal-lm":
        return
    for site in porting.sites:
        if site.role != "collator":
            continue
        fill_site(porting, site, table_of(porting, site), versions)
        if site.qualified == LANGUAGE_MODELING and site.argument("mlm") is None and not site.unknown_keywords:
            message = f"{short_name(site)}: mlm is True when it is left out, which trains a masked language model."
            fix = "Write mlm=False if this is a causal language model."
            porting.find(site.rule, "error", message, fix, site.line, site.column)
    for call in porting.module.calls:
        name = porting.module.qualified(call.func) or ""
        if name.startswith("transformers.") and name.rsplit(".", 1)[-1] in OTHER_TASKS:
            line, column = porting.module.location(call)
            message = f"{name.rsplit('.', 1)[-1]} makes batches for another task than causal language modelling."
            porting.find(trainer.rule, "error", message, "Tunix trains causal language models.", line, column)


@step(Phase.WRITE, of="trainer", fills=("parts",))
def write_collators(porting: Porting) -> None:
    """`return_tensors="pt"` of a library collator becomes `"np"`, where its call stays in place."""
    trainer = porting.trainer
    if trainer is None or table_of(porting, trainer).kind not in OF_TRAINER:
        return
    given = trainer.argument("data_collator")
    if given is not None and not given.value.is_literal(None):
        porting.code["collator"] = _text(porting, given)
    for site in porting.of_role("collator"):
        stays(porting, site.arguments)
        given = site.argument("return_tensors")
        if given is not None and given.node is not None and given.value.is_literal("pt"):
            if isinstance(given.node, cst.SimpleString):
                reason = "NumPy arrays: a TPU host needs no torch to make a batch"
                porting.edit(*porting.module.span(given.node), '"np"', site.rule, reason)


def _text(porting: Porting, argument: Argument) -> str:
    """The code of a collator that stands in the trainer's call, as `write_collators` would leave it."""
    start = porting.module.span(argument.node)[0] if argument.node is not None else 0
    text = argument.text
    for site in porting.sites:
        given = site.argument("return_tensors") if site.role == "collator" else None
        if given is None or given.node is None or argument.node is None or not _inside(porting.module, site, argument):
            continue
        if given.value.is_literal("pt") and isinstance(given.node, cst.SimpleString):
            first, last = porting.module.span(given.node)
            text = f'{text[: first - start]}"np"{text[last - start :]}'
    return text


def _inside(module: Module, site: Site, argument: Argument) -> bool:
    assert argument.node is not None
    start, end = module.span(argument.node)
    return start <= site.start < end

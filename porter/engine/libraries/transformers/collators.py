"""Data collators of transformers' Trainer: those of the library read by their tables, the script's own left alone.

A collator is Python that runs on the host, so that one of the script's own is called as it is, torch included.
"""

from __future__ import annotations

import re

import libcst as cst

from ....runtime.facts.field_tables import version_key
from ....source.module import Module
from ...receipts.marking import stays
from ...script.fill_from_tables import fill_site, plain_version, plain_versions, short_name, table_of
from ...script.flow import origins
from ...script.porting import Porting
from ...script.sites import Argument, Site
from ...script.training import Training, in_reach
from ...steps.step import Phase, step

LANGUAGE_MODELING = "transformers.DataCollatorForLanguageModeling"
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


def write_collators(porting: Porting) -> None:
    """`return_tensors="pt"` of a library collator becomes `"np"`, where its call stays in place."""
    for site in porting.of_role("collator"):
        stays(porting, site.arguments)
        given = site.argument("return_tensors")
        if given is not None and given.node is not None and given.value.is_literal("pt"):
            if isinstance(given.node, cst.SimpleString):
                reason = "NumPy arrays: a TPU host needs no torch to make a batch"
                porting.edit(*porting.module.span(given.node), '"np"', site.rule, reason)


def collator_text(porting: Porting, argument: Argument) -> str:
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


def saved_tokenizer(porting: Porting, node: cst.CSTNode) -> str:
    """The tokenizer that the trainer saves beside its model, as code for the place of `node`; empty for none.

    It is the trainer's own; without one, from transformers 4.50 on, what its collator was given.
    """
    if porting.names.tokenizer or porting.trainer is None:
        return porting.names.tokenizer
    module, argument = porting.module, porting.trainer.argument("data_collator")
    if argument is None or version_key(plain_version(porting.versions.get("transformers", "0"))) < (4, 50):
        return ""
    made = next((made for made in origins(module, argument.node) if _holds_tokenizer(module, made)), None)
    if not isinstance(made, cst.Call):
        return ""
    named = [arg.value for arg in made.args if arg.keyword is not None and arg.keyword.value == "tokenizer"]
    given = [*named, *(arg.value for arg in made.args if arg.keyword is None and not arg.star)][:1]
    text = module.code(given[0]) if given else ""
    readable = re.fullmatch(r"[\w.]+", text) is not None and in_reach(module.scope(made), module.scope(node))
    return text if readable else ""


def _holds_tokenizer(module: Module, made: cst.CSTNode) -> bool:
    """Whether an expression makes a collator with a `tokenizer`: most of the library's, and classes that say so."""
    if not isinstance(made, cst.Call):
        return False
    name = module.qualified(made.func) or ""
    if name.startswith("transformers."):
        return name.rsplit(".", 1)[-1].startswith("DataCollator") and not name.endswith("WithFlattening")
    meaning = module.meaning(made.func)
    classes = [binding.node for binding in meaning[1] if isinstance(binding.node, cst.ClassDef)] if meaning else []
    return any(re.search(r"\btokenizer\s*:|self\.tokenizer\s*=", module.code(each)) for each in classes)


def _inside(module: Module, site: Site, argument: Argument) -> bool:
    assert argument.node is not None
    start, end = module.span(argument.node)
    return start <= site.start < end

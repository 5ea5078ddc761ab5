"""transformers' Trainer on a causal language model: what stands where it stood.

Statements come in the order a Tunix user writes them: mesh, model, data, LoRA, optimizer, trainer.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ..engine.loops.parts import loop_parts
from ..engine.receipts.marking import mark_keywords, mark_of
from ..engine.script.fill_from_tables import plain_version
from ..engine.script.flow import origins
from ..engine.script.porting import Porting
from ..engine.script.sites import Argument
from ..runtime.facts import releases
from ..text.expressions import quoted
from ..text.layout import Arg
from .sft import unsloths_count
from .statements.common_statements import (
    Writing,
    batch_lines,
    joined,
    lora_lines,
    optimizer_lines,
    run_arguments,
    seed_arguments,
    shuffling_arguments,
    trainer_lines,
)
from .statements.model_statements import (
    model_lines,
    moved,
)
from .statements.multimodal import mean_arguments
from .statements.remarks import placed

# Recipe place → rt.TrainerBatches keyword and the value that the runtime takes when it is left out.
DATA = {
    "batch.drop_last": ("drop_last", False),
    "data.sampling": ("sampling", "random"),
    "data.inputs": ("inputs", None),
    "data.unlabelled": ("unlabelled", None),
    "data.remove_unused_columns": ("remove_unused_columns", True),
    "loss.mean_over": ("mean_over", "step"),
    "batch.average_tokens_across_devices": ("average_tokens_across_devices", True),
    "loss.label_smoothing": ("label_smoothing", 0.0),
}
NOTES = {"data.inputs": "# the loop's own"}


def trainer_block(porting: Porting, writing: Writing) -> str:
    """The statements that replace `trainer = Trainer(...)`, the first without its indentation."""
    site = porting.trainer
    assert site is not None
    indent = site.indent
    groups = [
        model_lines(porting, writing, indent, needs_tokenizer=False),
        batch_lines(
            porting,
            writing,
            indent,
            "TrainerBatches",
            _collator(porting),
            lambda: _batch_arguments(porting, writing),
            lambda: [*shuffling_arguments(porting, writing), *_release_arguments(porting)],
            defaults=DATA,
            asks=_of_loop(porting),
        ),
        lora_lines(porting, writing, indent),
        optimizer_lines(porting, indent),
        trainer_lines(porting, indent),
    ]
    # One blank line parts the data and the adapters from how they are trained.
    before, after = groups[:3], groups[3:]
    return joined([before, after], indent)


def _of_loop(porting: Porting) -> str:
    """Marks of a DataLoader's keywords: its order is the batches'."""
    loader = loop_parts(porting)[0] if porting.loop is not None else None
    return mark_keywords(porting, loader, "shuffle", "sampler", "generator")


def _collator(porting: Porting) -> str:
    """The collator's code; without one, the collator that Trainer takes."""
    site = porting.trainer
    assert site is not None
    argument = site.argument("data_collator")
    if argument is not None and not argument.value.is_literal(None):
        text = porting.code.get("collator", argument.text)
        parts = [part for each in origins(porting.module, argument.node) for part in _keywords(porting, each)]
        asked = mark_of(porting, parts)
        given = replace(argument, value=replace(argument.value, text=text))
        return asked + moved(porting, given, site.indent + porting.module.indent)
    if porting.loop is not None:  # torch's own collation
        return porting.rt("stack_rows")
    if porting.names.tokenizer:
        return f"{_of_transformers(porting, 'DataCollatorWithPadding')}({porting.names.tokenizer})"
    return _of_transformers(porting, "default_data_collator")


def _keywords(porting: Porting, node: cst.CSTNode) -> tuple[Argument, ...]:
    """The arguments of a library's collator."""
    return next((site.arguments for site in porting.of_role("collator") if site.node is node), ())


def _of_transformers(porting: Porting, name: str) -> str:
    """A name of transformers as the file would write it: behind `import transformers`, or with an import of its own."""
    bindings = porting.module.scopes[porting.module.tree].bindings
    for bound, found in bindings.items():
        if [binding.qualified for binding in found if binding.kind == "import"] == ["transformers"]:
            return f"{bound}.{name}"
    porting.imports.add(f"from transformers import {name}")
    return name


def _batch_arguments(porting: Porting, writing: Writing) -> list[Arg]:
    arguments = run_arguments(porting, writing)
    for place, (keyword, default) in DATA.items():
        value = porting.value(place)
        apart = place != "batch.average_tokens_across_devices" or porting.known("mesh.processes") != 1
        if value is not None and not value.is_literal(default) and (apart or porting.given(place)):
            arguments.append(placed(porting, place, keyword, NOTES.get(place, "")))
    return [*arguments, *seed_arguments(porting), *shuffling_arguments(porting, writing), *_release_arguments(porting)]


def _release_arguments(porting: Porting) -> list[Arg]:
    """`transformers="4.40.2"` where that release's Trainer made other steps than today's, or took another mean."""
    means = mean_arguments(porting)
    return [*means, *_as_release(porting, always=bool(means))]


def _as_release(porting: Porting, *, always: bool) -> list[Arg]:
    version = plain_version(porting.versions.get("transformers", ""))
    kernel = porting.code.get("attention", "")
    attention = [Arg(kernel, "attention", "# decides what padding sees")] if kernel else []
    same = releases.release(None).sums_like(version) if version and not always else not version
    if porting.loop is not None or same:
        return attention
    known = releases.release(None, version, porting.counted_by)
    steps = Arg(quoted(version), "transformers", "# steps and mean as with this release")
    return [steps, *unsloths_count(porting, known), *attention]

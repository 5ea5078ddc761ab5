"""Adapters under reentrant gradient checkpointing whose inputs ask for no gradients: the source ends, the port trains.

model = get_peft_model(model, LoraConfig(r=8))
trainer = Trainer(model, TrainingArguments("out", gradient_checkpointing=True), ...)

transformers before 5 checkpoints reentrantly: torch finds nothing to differentiate behind a frozen embedding.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Site, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, table_of

PART_OF = "peft"
KEYWORD = "gradient_checkpointing"
# The first TRL whose SFTTrainer lets the inputs of a model ask for gradients that has its adapters already.
PREPARES = (0, 20)
# What lets inputs ask for gradients, or turns to the other kind of checkpointing; a trained embedding asks by itself.
ASKS = re.compile(
    r"enable_input_require_grads|make_inputs_require_grad|use_reentrant|embed_tokens|modules_to_save|requires_grad_\(|"
    r"requires_grad\s*=\s*True|(?:Prompt|Prefix)\w*Config|gradient_checkpointing_enable\("
)


@step(
    Phase.READ,
    of="trainer",
    reads=(
        "model",
        "inject",
        "foreign_model",
        "arguments",
        "arguments_object",
        "values",
        "memory.gradient_checkpointing",
    ),
)
def say_checkpointed_inputs(porting: Training) -> None:
    """An info where the GPU run ends with "element 0 of tensors does not require grad"."""
    site, value = porting.trainer, porting.value("memory.gradient_checkpointing")
    inject = porting.inject or next(iter(porting.of_role("inject")), None)
    if site is None or inject is None or value is None or value.is_literal(False, None):
        return
    module, release = porting.module, plain_version(porting.versions.get("transformers", ""))
    if not release or version_key(release) >= (5,) or not _leaves_inputs(porting, site):
        return
    if ASKS.search(module.text) or "unsloth" in module.roots or (not value.known and KEYWORD not in module.text):
        return
    prepared = porting.of_role("prepare")
    if any(_runs_with(porting, each, inject) for each in prepared):
        return
    where = [] if value.known else [f"where {KEYWORD} is on"]
    where += ["where prepare_model_for_kbit_training isn't called"] if prepared else []
    message = f"{KEYWORD} over adapters that get_peft_model puts in: transformers {release} checkpoints reentrantly, "
    message += f"and no input asks for gradients. The GPU run ends at its first step{_joined(where)} (element 0 of "
    message += "tensors does not require grad); the port trains."
    fix = "model.enable_input_require_grads() in front of get_peft_model lets it train there, too."
    porting.find(PART_OF, "info", message, fix, inject.line, inject.column)


def _joined(conditions: list[str]) -> str:
    return f" {' and '.join(conditions)}" if conditions else ""


def _leaves_inputs(porting: Training, site: Site) -> bool:
    """Whether the trainer leaves a model with adapters as it is: transformers' own, an older SFTTrainer."""
    kind, trl = table_of(porting, site).kind, plain_version(porting.versions.get("trl", ""))
    return kind == "causal-lm" or (kind == "sft" and bool(trl) and version_key(trl) < PREPARES)


def _runs_with(porting: Training, prepared: Site, inject: Site) -> bool:
    """Whether a preparation for quantised training runs whenever the adapters are put in."""
    module = porting.module
    conditions = {node for node in module.ancestors(prepared.node) if isinstance(node, cst.If)}
    return conditions <= set(module.ancestors(inject.node))

"""`PeftModel.from_pretrained(model, "adapter", is_trainable=True)`: training goes on from a saved adapter.

Rank, scale and targets stand in the adapter's own adapter_config.json, which the port reads when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from ....runtime.facts.field_tables import version_key
from ....runtime.facts.releases import release as release_facts
from ...script.fill_from_tables import fill_site, plain_version, table_of
from ...script.flow import origins, put_in_again
from ...script.following.trainers_before import was_trained
from ...script.sites import Argument, Site, facts_of
from ...script.training import Training

# The first release of TRL whose reference is a copy of the adapter that training starts from; before, the base alone.
COPIES_ADAPTER = {"dpo": (0, 29), "kto": (1, 2)}
POLICIES = ("grpo", "rloo")  # whose reference the runtime knows by the release


def is_saved(porting: Training, site: Site) -> bool:
    """Whether a call loads a saved adapter to train it."""
    return table_of(porting, site).head.get("adapters") == "saved"


def is_frozen_adapter(porting: Training, model: Argument | None) -> bool:
    """Whether a model is made by a PeftModel.from_pretrained that doesn't train its adapter, merged or not."""
    nodes = list(origins(porting.module, model.node)) if model is not None else []
    for node in nodes[-1:]:
        while isinstance(node, cst.Call):
            if porting.module.qualified(node.func) in facts_of(porting.module).loads_adapters:
                return True
            if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "merge_and_unload":
                return False
            nodes = list(origins(porting.module, node.func.value))
            node = nodes[-1] if nodes else node.func.value
    return False


def read_saved(porting: Training, site: Site, versions: Mapping[str, str]) -> None:
    """The adapters are those of the folder, whatever it says."""
    fill_site(porting, site, table_of(porting, site), versions)
    folder = site.argument("model_id")
    porting.lora_object = folder.text if folder is not None else "None"
    porting.lora_certain = True
    say_reference(porting, site)


def say_reference(porting: Training, site: Site, *, certain: bool = True) -> None:
    """A finding where the port's reference isn't the release's: the adapter's base, or the model as it starts."""
    trainer = porting.trainer
    assert trainer is not None
    kind = table_of(porting, trainer).kind
    if kind not in ("dpo", "kto"):
        return
    reference, copied = trainer.argument("ref_model"), starts_from_adapter(porting)
    given = reference is not None and not reference.value.is_literal(None)
    release = ".".join(map(str, COPIES_ADAPTER[kind]))
    if copied and not certain and not given:
        message = f"TRL from {release} on takes a copy of this adapter as the reference, the port the model without it."
        fix = "Give the trainer ref_model=nnx.clone(model) where the adapter is loaded."
        porting.find(site.rule, "error", message, fix, site.line, site.column)


def leaves_adapter_out(porting: Training) -> bool:
    """Whether the reference of a policy loss is the base alone, and adapters that are trained already, in a folder or
    by a trainer before this one, may be trained on."""
    trainer = porting.trainer
    assert trainer is not None
    policy = table_of(porting, trainer).kind in POLICIES
    if not policy or starts_from_adapter(porting) or porting.known("loss.beta") == 0:
        return False
    injected = [site for site in porting.sites if site.role == "inject"]
    return any(is_saved(porting, site) for site in injected) or (bool(injected) and was_trained(porting))


def is_merged_into(porting: Training) -> bool:
    """Whether a saved adapter is merged into the model before it is trained."""
    module = porting.module
    merged: Mapping[cst.CSTNode, cst.BaseExpression] = module.memory.get("merged", {})
    loads = {*porting.loads, porting.model.node if porting.model is not None else None}
    again = put_in_again(module)
    return any(not loads.isdisjoint(origins(module, base)) for call, base in merged.items() if call not in again)


def starts_from_adapter(porting: Training) -> bool:
    """Whether the reference of a preference or policy loss is the model with the adapter that it starts from."""
    trainer = porting.trainer
    assert trainer is not None
    release = plain_version(porting.versions.get(trainer.qualified.partition(".")[0], ""))
    kind = table_of(porting, trainer).kind
    if kind in POLICIES:
        return release_facts(release or None).policy_reference == "start"
    first = COPIES_ADAPTER.get(kind)
    return first is not None and (not release or version_key(release) >= first)

"""Which Tunix family a model is, as far as the source shows it, and whether a mesh fits it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import is_file, read_text
from ...recipe import Value
from ...runtime.facts.families import families as known_families
from ...runtime.facts.families import find_family, read_family, refusal
from ...runtime.facts.family import Family
from ...runtime.facts.field_tables import version_key
from ...runtime.facts.mesh import mesh_problems
from ...runtime.facts.stored_formats import unread_format
from ...safety.model_sizes import sizes_in
from ...source.launch.launched_with import given_by_launches
from ...source.project.other_models import TOKENIZER_OF, has_latent_attention, is_known_without
from ...source.project.usual.model_names import named_in_help, usual_values_in
from ...source.read_value import read_value
from ..draft.findings import NO_FAMILY, NO_TASK
from ..packs.said_by_packs import title_of
from ..script.fill_from_tables import plain_versions, short_name, table_of
from ..script.following.other_models import of_another_family
from ..script.training import Training, families
from ..steps.step import Phase, step
from ..tokens.tokenizers import LOADS
from .checkpoints.resuming import is_checkpoint
from .checkpoints.stored_weights import OF_STORED
from .model_menus import say_menu
from .unseen_models import INSTEAD, WITHDRAWN, say_adapters, say_torchs_files, say_unknown, withdrawn

LACKING = "Tunix doesn't have this model's family"


@step(
    Phase.READ, of="trainer", reads=("model.id", "loads"), fills=("family", "sizes", "model.family_table", "obstacles")
)
def read_family_of_model(porting: Training) -> None:
    """The model's family in Tunix, and what the Recipe says of the port as a whole."""
    porting.family, porting.sizes = _find_family(porting)
    assert porting.trainer is not None
    name = porting.family.name if porting.family is not None else None
    porting.recipe = replace(porting.recipe, trainer=porting.trainer.qualified, target="PeftTrainer", family=name)


def _find_family(porting: Training) -> tuple[Family | None, Mapping[str, Any] | None]:
    """The model's family and sizes as far as the source shows them: a Hub id's name, or a local config.json."""
    identifier = porting.known("model.id")
    if not isinstance(identifier, str):
        return None, None
    extra = [read_family(path) for path in families(porting.packs)]
    folder = Path(porting.module.path).parent / identifier
    config_file = folder / "config.json"
    if is_file(config_file):
        try:
            config = json.loads(read_text(config_file))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"is no model config: {error}", config_file, fix="mend it") from None
        if not isinstance(config, dict):
            raise InputError("is no model config: it holds no object", config_file, fix="mend it")
        said = config.get("architectures")
        architectures = said if isinstance(said, list) and said and isinstance(said[0], str) else [None]
        model_type = config.get("model_type")
        family = find_family(architectures[0], model_type if isinstance(model_type, str) else None, extra=extra)
        if family is None:
            _no_family(porting, f"{architectures[0] or model_type} of {identifier}")
            return None, None
        return family, sizes_in(config, family, config_file)
    asked = ("family", identifier)
    if asked not in porting.answers:
        porting.answers[asked] = find_family(hub_id=identifier, extra=extra)
    family = porting.answers[asked]
    if family is None:
        return None, None
    for path, own in zip(families(porting.packs), extra, strict=True):
        if own is family:
            porting.fill({"model.family_table": Value("literal", repr(path.name))})
    return family, family.known_sizes(identifier)


def _no_family(porting: Training, what: str) -> None:
    value = porting.recipe.values["model.id"]
    line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
    message = f"{what}: Tunix has no implementation of this model family."
    porting.find("TP302", "error", message, of_another_family(), line, column, key=NO_FAMILY)


@step(
    Phase.READ,
    of="trainer",
    reads=(
        "family",
        "sizes",
        "obstacles",
        "model",
        "model.id",
        "loaded_by",
        "lora",
        "inject",
        "lora_object",
        "lora.targets",
    ),
    fills=("refused",),
)
def refuse(porting: Training) -> None:
    """Whether there are findings that make a port pointless: a model family that Tunix has not."""
    _say_checkpoint(porting)
    _say_embedding(porting)
    porting.refused = _was_another(porting) or _is_refused(porting, porting.family)


def _was_another(porting: Training) -> bool:
    """Whether the trainer's class was another one in the script's release (`since` and `before` of its table)."""
    site = porting.trainer
    assert site is not None
    rule = table_of(porting, site)
    since, release = rule.head.get("since"), plain_versions(porting).get(rule.library, "")
    if since is None or not release or version_key(release) >= version_key(since):
        return False
    short = short_name(site)
    for argument in (*(argument.name for argument in site.arguments), ""):
        porting.withdraw(f"{short}.{argument}")  # what is said of them is of the class of today
    name = f"{short} of {title_of(porting.packs, rule.library)} {release}"
    fix = f"Port a script for {since} or later, or train this stage on the GPU."
    porting.find(site.rule, "error", f"{name}: {rule.head['before']}.", fix, site.line, site.column)
    return True


def _say_checkpoint(porting: Training) -> None:
    """A warning where the model is a checkpoint of the GPU's run, which no run of the port writes."""
    value = porting.value("model.id")
    if value is None or not is_checkpoint(value) or (Path(porting.module.path).parent / value.literal).is_dir():
        return
    line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
    message = f"{value.literal}: a checkpoint of the GPU's run, which loads where it holds a whole model, not adapters."
    fix = "Bring the folder to the TPU machine; of adapters load the base, then rt.load_adapter."
    porting.find("TP302", "warning", message, fix, line, column)


def _say_embedding(porting: Training) -> None:
    """An error where adapters are asked for on the embedding of a model that the run names: of no family it goes."""
    value = porting.value("lora.targets")
    names = value.literal if value is not None and value.known else None
    if value is None or porting.family is not None or not isinstance(names, list | tuple):
        return
    if any(str(name).rpartition(".")[2] == "embed_tokens" for name in names):
        line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
        message = "target_modules has embed_tokens: Qwix cannot adapt embeddings."
        porting.find("TP201", "error", message, "Leave it out, on the GPU too.", line, column)


def _is_refused(porting: Training, family: Family | None) -> bool:
    if porting.findings.has(NO_FAMILY) or porting.findings.has(NO_TASK):
        return True
    identifier = porting.known("model.id")
    targets = porting.known("lora.targets") if family is None else None
    foreign = _foreign_targets(porting, targets)
    named = isinstance(identifier, str) and has_latent_attention(identifier, foreign)
    if foreign and (named or len(foreign) == len({*(targets or ())})):
        value = porting.recipe.values["lora.targets"]
        line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
        message = f"target_modules={_listed(foreign)}: Tunix has no implementation of a model family with such layers."
        porting.find("TP302", "error", message, of_another_family(), line, column)
        return True
    if not isinstance(identifier, str):
        _check_usual_model(porting)
        return False
    if family is None:
        if is_known_without(identifier):
            _no_family(porting, identifier)
            return True
        if (
            not say_adapters(porting, identifier)
            and porting.sizes is None
            and not is_checkpoint(porting.value("model.id"))
        ):
            say_unknown(porting, identifier, _listed(foreign))
        return False
    say_adapters(porting, identifier)
    if (instead := withdrawn(porting, family, identifier)) is not None:
        value = porting.recipe.values["model.id"]
        line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
        message = f"{identifier} {WITHDRAWN}: rt.load_model ends, as the GPU run would today."
        porting.find("TP302", "error", message, INSTEAD.format(instead), line, column)
    say_torchs_files(porting, family, identifier)
    reason = refusal(family, identifier)
    if reason is not None:
        value = porting.recipe.values["model.id"]
        line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
        message = f"{identifier}: Tunix can't compute this model: {reason}."
        porting.find("TP302", "error", message, "Choose another model.", line, column)
    return reason is not None


def _check_usual_model(porting: Training) -> None:
    """A finding where the model is chosen when the port runs, and is one that Tunix has not unless a user says another.

    It is an error and no refusal: the port is right for another model.
    """
    value = porting.value("model.id")
    if value is None or value.kind != "expression" or say_menu(porting, value):
        return
    refusals: list[tuple[str, str, str, str]] = []
    known = ", ".join(sorted({each.name for each in known_families()}))
    other = f"Give it a model of another family: {known}."
    launched = given_by_launches(Path(porting.module.path))
    usual = usual_values_in(porting.module, value.code, launched)
    if len(usual) == 1 and say_adapters(porting, *usual[0]):
        return
    for identifier, where in usual:
        family = find_family(hub_id=identifier, extra=[read_family(path) for path in families(porting.packs)])
        reason = refusal(family, identifier) if family is not None else None
        if held := unread_format(identifier):
            reason = f"its weights are quantised ({held}), which rt.load_model doesn't read"
        instead = withdrawn(porting, family, identifier) if family is not None else None
        if reason is not None:
            said = f"Tunix can't compute this model: {reason}"
            refusals.append((identifier, where, said, OF_STORED if held else other))
        elif instead is not None:
            refusals.append((identifier, where, f"the repository {WITHDRAWN}", INSTEAD.format(instead)))
        elif family is not None:
            if len(usual) == 1:
                say_torchs_files(porting, family, identifier)
            return
        elif is_known_without(identifier):
            refusals.append((identifier, where, LACKING, other))
    if not refusals:
        refusals = [(name, "whose tokenizer it takes", LACKING, other) for name in _foreign_tokenizers(porting)]
    if not refusals:
        if not _check_tokenizer(porting):
            _check_help(porting, value)
        return
    identifier, where, said, fix = refusals[-1]
    line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
    message = f"{identifier}{f' ({where})' if where else ''}: {said}; the port can't start with it."
    porting.find("TP302", "error", message, fix, line, column)


def _foreign_tokenizers(porting: Training) -> list[str]:
    """The names of the tokenizers that the script loads, where all are those of models which Tunix has not."""
    module = porting.module
    calls = [call for call in module.calls if LOADS.fullmatch(module.qualified(call.func) or "") and call.args]
    values = [read_value(module, call.args[0].value) for call in calls]
    names = [value.literal for value in values if value.known and isinstance(value.literal, str)]
    return names if len(names) == len(values) and all(map(is_known_without, names)) else []


def _check_tokenizer(porting: Training) -> bool:
    """A warning where the script reads of a tokenizer what those of one family alone have, which Tunix has not."""
    module = porting.module
    for name, family in TOKENIZER_OF.items():
        for place in re.finditer(rf"\btokenizer\.{name}\b", module.python):
            message = f"{place[0]}: an attribute of the tokenizer of {family}, a family that Tunix doesn't have."
            message += " The port can't start with it."
            fix = "With another model nothing reads it; give the port one of a family that Tunix has."
            porting.find("TP302", "warning", message, fix, *module.line_column(place.start()))
            return True
    return False


def _check_help(porting: Training, value: Value) -> None:
    """A warning where the help of the argument that names the model has an example of a family that Tunix has not."""
    words = named_in_help(value.code, porting.module.python, Path(porting.module.path))
    if any(find_family(hub_id=word) is not None for word, _ in words):
        return
    foreign = next(((word, where) for word, where in words if is_known_without(word)), None)
    if foreign is not None:
        line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
        message = f"{foreign[0]} ({foreign[1]}): Tunix doesn't have this model's family; the port can't start with it."
        names = ", ".join(sorted({family.name for family in known_families()}))
        porting.find("TP302", "warning", message, f"Give it a model of another family: {names}.", line, column)


def _foreign_targets(porting: Training, targets: Any) -> list[str]:
    """Those of `target_modules` that are a layer of no family, as PEFT matches them."""
    if isinstance(targets, str) or not targets or not all(isinstance(name, str) for name in targets):
        return []  # a pattern, "all-linear", or PEFT's own choice
    known = known_families([read_family(path) for path in families(porting.packs)])
    layers = {linear["hf"] for family in known for linear in family.table["linear"]} | {"lm_head", "embed_tokens"}
    tails = {name: re.sub(r"^(?:.*\.)?\d+\.", "", name) for name in targets}  # `layers.3.self_attn.q_proj`
    return [name for name, tail in tails.items() if not any(f".{layer}".endswith(f".{tail}") for layer in layers)]


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


@step(Phase.READ, of="trainer", reads=("family", "sizes", "mesh", "model.id"))
def check_mesh(porting: Training) -> None:
    """InputError where the tensors of the model don't divide by the axes of the mesh that is asked for."""
    family, sizes, mesh = porting.family, porting.sizes, porting.mesh
    if mesh is None or family is None or sizes is None:
        return
    problems = mesh_problems(family, sizes, *mesh)
    if problems:
        *tensors, fitting = problems
        shown = tensors[:3] + ([f"and {len(tensors) - 3} more"] if len(tensors) > 3 else [])
        raise InputError(
            f"--mesh fsdp={mesh[0]},tp={mesh[1]} does not fit {porting.known('model.id')}: {'; '.join(shown)}",
            fix=fitting,
        )


def family_files(porting: Training) -> tuple[tuple[str, str], ...]:
    name = porting.known("model.family_table")
    return tuple(
        (path.name, path.read_text("utf-8"))
        for path in families(porting.packs)
        if name is not None and path.name == name
    )

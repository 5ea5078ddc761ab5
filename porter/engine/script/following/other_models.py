"""Models that a script loads and that no trainer of Tunix's has: of another task, or of a family that it hasn't.

Which calls load one is noted by the pack of their library, before a trainer is read; a training loop written by hand
is refused by what it trains, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from ....errors import InputError
from ....files import plain_text
from ....recipe import Finding
from ....runtime.facts.families import families
from ....source.module import Module
from ....source.parsing import parse_module
from ....source.project.modules import LARGEST, find_project_file
from ....source.project.other_models import is_known_without
from ....source.read_value import read_value
from ..fill_from_tables import bindings_of
from ..flow import binding_origins, origins
from ..sites import Site
from ..training import Training

OTHER_MODELS = "models of another kind"  # of the module's memory: what such calls load, by call
RULE = "TP302"
MODEL = "model"


@dataclass(frozen=True)
class OtherModel:
    """What a call loads: its class, or the name that it has on the Hub; what Tunix lacks of it (`kind of model`,
    `model family`), and what to do."""

    name: str
    lacks: str
    fix: str

    @property
    def is_of_another_task(self) -> bool:
        """Whether no model of that task ports, so that nothing else has to be said."""
        return self.lacks == "kind of model"

    def finding(self, module: Module, call: cst.CSTNode) -> Finding:
        """What is said of it at the call that loads it."""
        message = f"{self.name}: Tunix has no implementation of this {self.lacks}."
        return Finding(RULE, "error", message, self.fix, *module.location(call))


def other_models(module: Module) -> Mapping[cst.Call, OtherModel]:
    """The calls that load a model of another task, or by the class of an architecture that Tunix hasn't."""
    found: Mapping[cst.Call, OtherModel] = module.memory.get(OTHER_MODELS, {})
    return found


def of_another_family() -> str:
    """What to do about a model of a family that Tunix hasn't."""
    names = ", ".join(sorted({family.name for family in families()}))
    return f"Keep this training on the GPU, or choose a model of a family that ports: {names}."


def made_by(porting: Training, node: cst.BaseExpression | None) -> list[cst.Call]:
    """The calls that a variable may hold the model of, and those that they lead back to."""
    return made_in(porting.module, node)


def made_in(module: Module, node: cst.BaseExpression | None) -> list[cst.Call]:
    """The same, of a variable of a file."""
    bound = bindings_of(module, node) if node is not None else []
    values = [value for binding in bound for value in (binding.value, *binding_origins(module, binding))]
    return [value for value in [*values, *origins(module, node)] if isinstance(value, cst.Call)]


def function_elsewhere(module: Module, call: cst.Call) -> tuple[Module, cst.FunctionDef, str] | None:
    """The function at the top of another file of the project that a call means, that file as a module, and its name."""
    name = module.qualified(call.func)
    if name is None or (found := find_project_file(module.path, name)) is None:
        return None
    files: dict[Path, Module | None] = module.memory.setdefault("files of the project", {})
    file, shown = found
    if file not in files:
        try:
            files[file] = parse_module(plain_text(file, LARGEST).encode(), str(file))
        except (OSError, InputError):
            files[file] = None
    other, short = files[file], name.rpartition(".")[2]
    if other is None:
        return None
    bindings = other.scopes[other.tree].bindings.get(short, [])
    function = bindings[0].node if len(bindings) == 1 else None
    return (other, function, shown) if isinstance(function, cst.FunctionDef) else None


def others_trained(porting: Training, model: cst.BaseExpression | None) -> list[tuple[cst.CSTNode, OtherModel]]:
    """What a loop trains that Tunix hasn't, with the calls that load it; none where it may train another model, too.

    `model`: what the loop calls. Where that isn't seen, or not who makes it, all models of the file are meant.
    """
    module, sites = porting.module, {site.node: site for site in porting.of_role(MODEL)}
    others = other_models(module)
    calls = list(dict.fromkeys(call for call in made_by(porting, model) if call in others or call in sites))
    if not calls:
        calls = [call for call in (*others, *sites) if isinstance(call, cst.Call)]
    found: list[tuple[cst.CSTNode, OtherModel]] = []
    for call in calls:
        other = others[call] if call in others else _by_name(porting, sites[call])
        if other is None:
            return []
        found.append((call, other))
    return found


def _by_name(porting: Training, site: Site) -> OtherModel | None:
    """What `AutoModelForCausalLM.from_pretrained("gpt2")` loads, where its name says that Tunix hasn't its family."""
    argument = site.argument("pretrained_model_name_or_path", "model_name")
    if argument is None or argument.node is None:
        return None
    value = read_value(porting.module, argument.node)
    if not value.known or not isinstance(value.literal, str) or not is_known_without(value.literal):
        return None
    return OtherModel(value.literal, "model family", of_another_family())

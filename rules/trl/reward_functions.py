"""What a script gives as `reward_funcs`: functions of its own, whose signatures are checked, or reward models."""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Argument, Phase, Site, step
from porter.packs.script import shown
from porter.packs.training import Training, bindings_of, short_name, table_of

PART_OF = "trl"

REWARD_MODEL = "AutoModelForSequenceClassification.from_pretrained"


@step(Phase.READ, of="trainer", reads=("given values",))
def check_rewards(porting: Training) -> None:
    """Findings for reward models, and for functions that can't be called as TRL calls them."""
    site = porting.trainer
    assert site is not None
    if table_of(porting, site).kind not in ("grpo", "rloo"):
        return
    argument = site.argument("reward_funcs")
    if argument is None:
        said = f"{short_name(site)} has no reward_funcs: rewards that an environment gives are not ported."
        porting.find(
            site.rule, "error", said, "Give it a reward function.", site.line, site.column, key=f"{short_name(site)}."
        )
        return
    for node in _sources(porting, argument.node):
        if isinstance(node, cst.SimpleString | cst.ConcatenatedString) or _is_model(porting, node):
            _say_model(porting, site, argument, node)
        elif isinstance(node, cst.FunctionDef | cst.Lambda):
            missing = _not_taken(node)
            if missing:
                name = node.name.value if isinstance(node, cst.FunctionDef) else "lambda"
                said = f"the reward function {name} takes no {' and no '.join(missing)}, which TRL calls it with."
                line, column = porting.module.location(node)
                porting.find(site.rule, "error", said, "Add **kwargs to its parameters.", line, column)


def _sources(porting: Training, node: cst.CSTNode | None, seen: tuple[cst.CSTNode, ...] = ()) -> list[cst.CSTNode]:
    """The expressions, or function definitions, that a value may be made of; names are followed once bound.

    `seen`: the values that are being followed, as `rewards = [rewards]` leads back to itself.
    """
    if node is not None and node in seen:
        return []
    if isinstance(node, cst.List | cst.Tuple):
        around = (*seen, node)
        return [source for element in node.elements for source in _sources(porting, element.value, around)]
    if not isinstance(node, cst.Name):
        return [node] if node is not None else []
    found: list[cst.CSTNode] = []
    for binding in bindings_of(porting.module, node):
        if isinstance(binding.node, cst.FunctionDef):
            found.append(binding.node)
        elif binding.kind == "assign" and binding.value is not None and binding.value is not node:
            value = binding.value
            found += [value] if isinstance(value, cst.Name) else _sources(porting, value, seen)
    return found


def _is_model(porting: Training, node: cst.CSTNode) -> bool:
    name = porting.module.qualified(node.func) if isinstance(node, cst.Call) else None
    return name is not None and name.endswith(REWARD_MODEL)


def _say_model(porting: Training, site: Site, argument: Argument, node: cst.CSTNode) -> None:
    said = (
        f"{short_name(site)}.reward_funcs: {shown(porting.module.code(node))} is a reward model, which runs on PyTorch."
    )
    fix = "Score with it in a function of your own, on the CPU or behind a server."
    porting.find(site.rule, "error", said, fix, argument.line, argument.column)


def _not_taken(node: cst.FunctionDef | cst.Lambda) -> list[str]:
    """Of the keywords that every release of TRL gives, those that a function has no parameter for."""
    parameters = node.params
    if parameters.star_kwarg is not None:
        return []
    named = {parameter.name.value for parameter in (*parameters.params, *parameters.kwonly_params)}
    return sorted({"prompts", "completions"} - named)

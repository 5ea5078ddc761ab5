"""Unsloth's `get_peft_model` seeds the generators of Python and NumPy, from which the script draws below.

What it does: writes `set_seed(3407)` behind the adapters where something is drawn without a seed of its own after them.
Why: `get_peft_model` begins with transformers' set_seed(random_state), 3407 unless that says another number. So
`dataset.train_test_split(...)`, `dataset.shuffle()` and `random.sample(...)` give the same rows in every GPU run.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, Site, step
from porter.packs.script import DRAWS, Module, calls_of, function_around

PART_OF = "TP702"

SEED = "3407"
SEEDED_BY_ITSELF = frozenset(
    {"default_rng", "Generator", "RandomState", "SeedSequence", "seed", "get_state", "set_state"}
)
SPLITS = "sklearn.model_selection.train_test_split"
# Methods that draw from NumPy's own generator unless they are given one: of datasets, of a DataFrame.
METHODS = {
    "train_test_split": ("seed", "generator"),
    "shuffle": ("seed", "generator", "seeds", "generators", "buffer_size"),
    "sample": ("random_state",),
}
MAX_CALLS = 8


@step(Phase.ANSWER)
def seed_draws(porting: Porting) -> None:
    """`set_seed(...)` where Unsloth seeds, for what is drawn behind it."""
    module = porting.module
    for site in porting.of_role("inject"):
        if not site.qualified.startswith("unsloth.") or not isinstance(site.node, cst.Call):
            continue
        drawn = next((draw for draw in _draws(module) if _comes_behind(module, draw, site)), None)
        given = site.argument("random_state")
        if drawn is None or (given is not None and given.value.is_literal(None)):
            continue
        code = given.text if given is not None else SEED
        what = module.code(drawn.func).rpartition(".")[2]
        line = f"{_set_seed(porting)}({code})  # Unsloth's get_peft_model seeds what {what} draws by"
        reason = "get_peft_model seeds Python's and NumPy's generators, by which the script draws without a seed"
        between = f"{module.newline}{site.indent}"
        if site.place != "line":
            message = f"Unsloth's get_peft_model seeds what {what} draws by ({code}), and the port doesn't."
            fix = f"Call transformers.set_seed({code}) there."
            porting.find(PART_OF, "warning", message, fix, site.line, site.column)
        elif site.variable is not None:
            porting.edit(site.statement_end, site.statement_end, between + line, PART_OF, reason)
        else:
            porting.edit(site.statement_start, site.statement_start, line + between, PART_OF, reason)


def _set_seed(porting: Porting) -> str:
    """How the port names transformers' function, where the script has another of that name."""
    module = porting.module
    found = module.scopes[module.tree].lookup("set_seed")
    if found is None or all(binding.qualified == "transformers.set_seed" for binding in found[1]):
        porting.imports.add("from transformers import set_seed")
        return "set_seed"
    porting.imports.add("import transformers")
    return "transformers.set_seed"


def _draws(module: Module) -> Iterator[cst.Call]:
    """Calls that draw from Python's generator or NumPy's, with no seed of their own."""
    for call in module.calls:
        name = module.qualified(call.func) or ""
        given = {argument.keyword.value for argument in call.args if argument.keyword is not None}
        owner, _, last = name.rpartition(".")
        if name in DRAWS or (owner == "numpy.random" and last not in SEEDED_BY_ITSELF):
            yield call
        elif _keeps_order(call):
            continue
        elif name == SPLITS:
            if "random_state" not in given:
                yield call
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in METHODS and owner != "random":
            method = call.func.attr.value
            seeded = given & {*METHODS[method]} or any(argument.star for argument in call.args)
            positional = [argument for argument in call.args if argument.keyword is None]
            if not seeded and len(positional) <= (0 if method == "shuffle" else 1):
                yield call


def _keeps_order(call: cst.Call) -> bool:
    """Whether a split is asked for without a draw, `shuffle=False`."""
    asked = [each.value for each in call.args if each.keyword is not None and each.keyword.value == "shuffle"]
    return any(isinstance(value, cst.Name) and value.value == "False" for value in asked)


def _comes_behind(module: Module, place: cst.CSTNode, site: Site, depth: int = 0) -> bool:
    """Whether the run comes to a place after Unsloth has seeded: below it, or in a function that is used below it."""
    own, function = function_around(module, site.node), function_around(module, place)
    if function is own:
        return module.span(place)[0] > module.span(site.node)[1]
    if function is None:
        calls = calls_of(module, own) if own is not None else ()
        return any(module.span(call)[1] < module.span(place)[0] for call in calls)
    if depth > MAX_CALLS:
        return False
    uses = module.references(function.name.value, module.scope(function))
    outer = [use for use in uses if function not in module.ancestors(use) and use is not function.name]
    return any(_comes_behind(module, use, site, depth + 1) for use in outer)

"""Seeds of what a script samples itself: `torch.manual_seed(42)` in front of `model.generate(..., do_sample=True)`.

What it does: where the port generates, `torch.manual_seed(seed)` becomes `rt.manual_seed(seed)`, by which `rt.generate`
and pipelines draw from then on. Where torch itself still draws (`random_split`, `torch.randperm`, a DataLoader that
shuffles) the call stays, beside it. Elsewhere it goes, as TP512 says.
Why: the same prompts with the same seed give the same tokens again, as on the GPU; they are other tokens than there.
Example: `torch.manual_seed(0); outputs = model.generate(**inputs, temperature=0.7)`
Use instead: `rt.generate(..., seed=0)` where one call alone is meant.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, indentation, is_false, named_arguments

ID = "TP541"
REASON = "the seed of what rt.generate draws"
SEEDS = ("torch.manual_seed", "torch.random.manual_seed")
DRAWS = frozenset({"rt.generate", "rt.TextGenerationPipeline"})
# What draws by torch's own generator, wherever in torch it is imported from.
TORCH_DRAWS = frozenset(
    """rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial
    random_split RandomSampler WeightedRandomSampler SubsetRandomSampler DataLoader""".split()
)
OF_LOADER = ("dataset", "batch_size", "shuffle")  # a DataLoader's first arguments


@step(Phase.ANSWER, reads=("claimed uses",), fills=("claimed names",))
def keep_seeds(porting: Porting) -> None:
    """Leave torch's seed where torch draws in the port, from no generator of the script's own."""
    if _torch_draws(porting):
        porting.keep_names(*(call.func for name in SEEDS for call in porting.module.calls_by_name.get(name, ())))


def _torch_draws(porting: Porting) -> bool:
    module = porting.module
    if "manual_seed" not in module.text:
        return False
    names = [name for name in module.calls_by_name if name.startswith("torch.")]
    calls = [call for name in names if name.rpartition(".")[2] in TORCH_DRAWS for call in module.calls_by_name[name]]
    return any(_draws(module, call) and not porting.covered(module.span(call)[0]) for call in calls)


def _draws(module: Module, call: cst.Call) -> bool:
    """Whether a call that may draw does so: from no generator of its own, a DataLoader where it shuffles."""
    given = named_arguments(call, OF_LOADER)
    if (module.qualified(call.func) or "").endswith(".DataLoader"):
        shuffles = given.get("shuffle")
        if shuffles is None or is_false(shuffles):
            return False
    return "generator" not in given


@step(Phase.ANSWER, reads=("claimed uses",), fills=("claimed names",))
def seed_generation(porting: Porting) -> None:
    """Seed the runtime's generation where the script seeds torch and the port generates."""
    module = porting.module
    if "manual_seed" not in module.text or not DRAWS & porting.written_names():
        return
    draws = _torch_draws(porting)
    for name in SEEDS:
        for call in module.calls_by_name.get(name, ()):
            start, end = module.span(call)
            statement = module.parents[call]
            if not isinstance(statement, cst.Expr) or len(call.args) != 1 or porting.covered(start):
                continue
            seeds = f"{porting.rt('manual_seed')}({module.code(call.args[0].value)})"
            if not draws:
                porting.edit(start, end, seeds, ID, REASON)
            else:
                alone = len(module.parents[statement].body) == 1  # type: ignore[attr-defined]
                porting.edit(end, end, (f"\n{indentation(module.text, start)}" if alone else "; ") + seeds, ID, REASON)

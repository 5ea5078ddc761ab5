"""Seeds of what a script samples itself: `torch.manual_seed(42)` in front of `model.generate(..., do_sample=True)`.

What it does: where the port generates, `torch.manual_seed(seed)` becomes `rt.manual_seed(seed)`, by which `rt.generate`
and pipelines draw from then on. Where torch itself still draws (`random_split`, `torch.randperm`) the call stays.
Elsewhere it goes, as TP512 says.
Why: the same prompts with the same seed give the same tokens again, as on the GPU; they are other tokens than there.
Example: `torch.manual_seed(0); outputs = model.generate(**inputs, temperature=0.7)`
Use instead: `rt.generate(..., seed=0)` where one call alone is meant.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step

ID = "TP541"
REASON = "the seed of what rt.generate draws"
SEEDS = ("torch.manual_seed", "torch.random.manual_seed")
DRAWS = frozenset({"rt.generate", "rt.TextGenerationPipeline"})
TORCH_DRAWS = (
    *(f"torch.{name}" for name in ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "normal")),
    *(f"torch.{name}" for name in ("bernoulli", "multinomial")),
    *(f"torch.utils.data.{name}" for name in ("random_split", "RandomSampler", "WeightedRandomSampler")),
    "torch.utils.data.SubsetRandomSampler",
)


@step(Phase.ANSWER, reads=("claimed uses",), fills=("claimed names",))
def keep_seeds(porting: Porting) -> None:
    """Leave torch's seed where torch draws in the port, from no generator of the script's own."""
    module = porting.module
    if "manual_seed" not in module.text:
        return
    draws = [call for name in TORCH_DRAWS for call in module.calls_by_name.get(name, ())]
    if all(_has_generator(call) or porting.covered(module.span(call)[0]) for call in draws):
        return
    porting.keep_names(*(call.func for name in SEEDS for call in module.calls_by_name.get(name, ())))


def _has_generator(call: cst.Call) -> bool:
    return any(argument.keyword is not None and argument.keyword.value == "generator" for argument in call.args)


@step(Phase.ANSWER, reads=("claimed uses",), fills=("claimed names",))
def seed_generation(porting: Porting) -> None:
    """Seed the runtime's generation where the script seeds torch and the port generates."""
    module = porting.module
    if "manual_seed" not in module.text or not DRAWS & porting.written_names():
        return
    for name in SEEDS:
        for call in module.calls_by_name.get(name, ()):
            start, end = module.span(call)
            statement = module.parents[call]
            if not isinstance(statement, cst.Expr) or len(call.args) != 1 or porting.covered(start):
                continue
            porting.edit(start, end, f"{porting.rt('manual_seed')}({module.code(call.args[0].value)})", ID, REASON)

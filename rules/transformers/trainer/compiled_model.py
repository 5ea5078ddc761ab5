"""`model = torch.compile(model)` in front of the Trainer that gets it: its source ends, and the port trains.

The compiled model's forward is `forward(*args, **kwargs)`, so that the Trainer takes all columns for unused ones. Of a
quantised model it refuses to be made, from transformers 4.38 to 5.1.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import Binding, plain_version, reaching, version_key
from porter.packs.training import Training

PART_OF = "transformers"
REFUSES = (4, 38), (5, 2)  # quantised models that are compiled: from, until


@step(Phase.READ, of="trainer", reads=("model", "model.quantization", "arguments", "config", "script values"))
def say_compiled(porting: Training) -> None:
    """A warning where the GPU run ends before it trains."""
    site = porting.trainer
    given = site.argument("model") if site is not None else None
    compiled = _compiled(porting, given.node) if given is not None else None
    if site is None or compiled is None:
        return
    config = porting.arguments or porting.config
    kept = config.argument("remove_unused_columns") if config is not None else None
    release, quantization = plain_version(porting.versions.get("transformers", "")), porting.value("model.quantization")
    is_quantised = quantization is not None and quantization.known and bool(quantization.literal)
    if is_quantised and release and REFUSES[0] <= version_key(release) < REFUSES[1]:
        ends = f"transformers {release} makes no Trainer for a quantised model that is compiled"
    elif site.qualified == "transformers.Trainer" and (kept is None or kept.value.is_literal(True)):
        ends = "the Trainer takes all columns away, as a compiled model's forward names none, and has no rows"
    else:
        return
    where = "where the model is compiled, " if compiled.conditional else ""
    message = f"torch.compile in front of the Trainer: {where}the GPU run ends ({ends}). The port trains."
    fix = "Say torch_compile=True in the arguments instead, or compile behind the Trainer: so the GPU run trains."
    porting.find(site.rule, "warning", message, fix, *porting.module.location(compiled.node))


def _compiled(porting: Training, model: cst.CSTNode | None) -> Binding | None:
    """What binds the name that the Trainer gets to the compiled model."""
    if not isinstance(model, cst.Name | cst.Attribute):
        return None
    module = porting.module
    for binding in reaching(module, model):
        value = binding.value
        if isinstance(value, cst.Call) and value.args and module.qualified(value.func) == "torch.compile":
            return binding
    return None

"""Branches of a GPU and of a machine without one that load models and make settings of their own.

    use_quantization = torch.cuda.is_available()
    if use_quantization:
        model = AutoModelForCausalLM.from_pretrained(name, load_in_4bit=True)
    else:
        model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)

The GPU run took the first; the port takes it, too. Of `use_quantization and not args.full` the other part decides. So
it is with branches that put keywords of the load into a dictionary, `options["quantization_config"] = config`.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, Site, step
from porter.packs.script import asks_for_gpu, bare, function_around, inside, is_same, speaks_of_gpu

from ._gpu_questions import REASON, SETTINGS, decision, is_on_gpu, is_said, on_gpu, questions, small

PART_OF = "TP526"


@step(Phase.ANSWER, fills=("claimed names", "gpu branches"))
def settle_gpu_branches(porting: Porting) -> None:
    """A question that decides such a branch, itself or by a variable, is answered as on the GPU."""
    module = porting.module
    if not speaks_of_gpu(module):
        return
    for call in questions(porting):
        if not porting.covered(module.span(call)[0]):
            _settle(porting, call)
    for holder in [node for node in module.parents if isinstance(node, cst.If)]:
        named = "cuda" in module.code(holder.test) and not porting.covered(module.span(holder.test)[0])
        if named and asks_for_gpu(module, holder.test) and _makes_settings(porting, holder):  # `device == "cuda"`
            left = on_gpu(porting, holder.test)
            if left is not None and not any(is_on_gpu(porting, node) for node in inside(holder.body)):
                porting.edit(*module.span(holder.test), bare(str(left)), PART_OF, REASON)


def _settle(porting: Porting, call: cst.Call) -> None:
    module = porting.module
    test = decision(porting, call)
    known, holder = on_gpu(porting, test), module.parents[test]
    if known is None:
        return
    if isinstance(holder, cst.If) and holder.test is test:
        if _makes_settings(porting, holder):
            porting.edit(*module.span(test), bare(str(known)), PART_OF, REASON)
        return
    target = holder.targets[0].target if isinstance(holder, cst.Assign) and len(holder.targets) == 1 else None
    found = module.scope(holder).lookup(target.value) if isinstance(target, cst.Name) else None
    if not isinstance(target, cst.Name) or found is None:
        return
    uses = module.references(target.value, found[0])
    if any(_makes_settings(porting, branch) for use in uses if (branch := _branch_of(porting, use)) is not None):
        if all(_is_harmless(porting, use) for use in uses):
            porting.edit(*module.span(test), bare(str(known)), PART_OF, REASON)


def _branch_of(porting: Porting, use: cst.BaseExpression) -> cst.If | None:
    test = decision(porting, use)
    holder = porting.module.parents[test]
    return holder if isinstance(holder, cst.If) and holder.test is test else None


def _makes_settings(porting: Porting, holder: cst.If) -> bool:
    """Whether a branch loads the model or makes what the training takes."""
    within = [site for site in porting.sites if site.role in SETTINGS]
    if any(holder in porting.module.ancestors(site.node) for site in within) or _puts_keywords(porting, holder):
        return True
    return _returns_before(porting, holder, within)


def _returns_before(porting: Porting, holder: cst.If, within: list[Site]) -> bool:
    """Whether a branch ends its function in front of such a call: `if not HAS_CUDA: return None`."""
    module, last = porting.module, [*small(holder.body)]
    if not last or not isinstance(last[-1], cst.Return) or holder.orelse is not None:
        return False
    function, end = function_around(module, holder), module.span(holder)[1]
    here = [site for site in within if function is not None and function_around(module, site.node) is function]
    return any(site.start >= end for site in here)


def _puts_keywords(porting: Porting, holder: cst.If) -> bool:
    """Whether a branch does no more than put keywords into dictionaries that make a setting, and tell of it."""
    module, calls = porting.module, [site.node for site in porting.sites if site.role in SETTINGS]
    spread = [a.value for call in calls if isinstance(call, cst.Call) for a in call.args if a.star == "**"]
    items = 0
    for line in small(holder.body):
        target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
        if isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
            if not any(is_same(module, target.value, each) for each in spread):
                return False
            items += 1
        elif not (isinstance(line, cst.Expr) and is_said(porting, [line.value])):
            return False
    return items > 0


def _is_harmless(porting: Porting, use: cst.BaseExpression) -> bool:
    """Whether a use decides a branch, is printed or is gone: nothing is moved to a GPU by it."""
    module = porting.module
    gone = porting.covered(module.span(use)[0]) or is_said(porting, [*module.ancestors(use)])
    branch = _branch_of(porting, use)
    return gone or (branch is not None and not any(is_on_gpu(porting, node) for node in inside(branch.body)))

"""GPUs that Ray or Modal is asked for.

What it does: names calls of Ray and Modal that ask for GPUs: `resources={"gpu": 1}`, `num_gpus=1`, `use_gpu=True`,
`gpu="A100"`.
Why: no TPU machine offers one; Ray waits for it without end, Modal has no TPUs.
Example: `tune.with_resources(train, resources={"cpu": 2, "gpu": 1})`
Use instead: `tune.with_resources(train, resources={"TPU": 4})`
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import inside

ID = "TP537"
KEYWORDS = ("gpu", "num_gpus", "use_gpu")
SCHEDULERS = {
    "ray": ("no TPU machine offers Ray one, which waits for it without end", 'Ask for "TPU" chips, or for CPUs alone.'),
    "modal": ("Modal has no TPUs", "Run what the function does on a TPU machine."),
}

OF_AN_APP = ("function", "cls")


@step(Phase.NAME, anywhere=True)
def name_asked_gpus(porting: Porting) -> None:
    """An error for every call of a scheduler that asks for a GPU by a number, a name or True."""
    module = porting.module
    for call in module.calls if SCHEDULERS.keys() & set(module.roots) else ():
        scheduler = _scheduler(porting, call)
        asked = next((text for text in _asked(porting, call)), "") if scheduler else ""
        if asked:
            why, fix = SCHEDULERS[scheduler]
            message = f"{module.code(call.func)}(...) asks for a GPU, {asked}: {why}."
            porting.find(ID, "error", message, fix, *module.location(call))


def _scheduler(porting: Porting, call: cst.Call) -> str:
    """Whose function is called, also one of an object that the library made: `app = modal.App()`, `app.function()`."""
    module = porting.module
    name = module.qualified(call.func) or ""
    if not name.startswith(tuple(f"{each}." for each in SCHEDULERS)) and isinstance(call.func, cst.Attribute):
        meaning = module.meaning(call.func.value) if isinstance(call.func.value, cst.Name) else None
        if meaning and "modal" in module.roots and call.func.attr.value in OF_AN_APP:
            if any(binding.kind == "import" for binding in meaning[1]):  # the app of another file
                return "modal"
        made = [binding.node for binding in meaning[1] if isinstance(binding.node, cst.Assign)] if meaning else []
        name = next((module.qualified(node.value.func) or "" for node in made if isinstance(node.value, cst.Call)), "")
    root = name.partition(".")[0]
    return root if root in SCHEDULERS else ""


def _asked(porting: Porting, call: cst.Call) -> list[str]:
    """What asks for a GPU: a keyword, or an entry of a dictionary that is given."""
    code = porting.module.code
    found = []
    for argument in call.args:
        named = argument.keyword.value if argument.keyword is not None else ""
        if named in KEYWORDS and _counts(porting, argument.value):
            found.append(f"{named}={code(argument.value)}")
        for node in inside(argument.value) if isinstance(argument.value, cst.Dict) else ():
            if isinstance(node, cst.DictElement) and code(node.key).strip("\"'").lower() in KEYWORDS:
                if _counts(porting, node.value):
                    found.append(f"{code(node.key)}: {code(node.value)}")
    return found


def _counts(porting: Porting, value: cst.BaseExpression) -> bool:
    """Whether a value is a GPU, or some, for certain: `modal.gpu.A100()` too, and a constant that holds one."""
    module = porting.module
    if isinstance(value, cst.Name) and value.value != "True":
        made = module.single_binding(value)
        held = made.value if made is not None else None
        return held is not None and not isinstance(held, cst.Name) and _counts(porting, held)
    if isinstance(value, cst.Name):
        return True
    if isinstance(value, cst.Call):
        return (module.qualified(value.func) or "").startswith("modal.gpu.")
    text = value.value if isinstance(value, cst.Integer | cst.Float | cst.SimpleString) else "0"
    return text.strip("\"'") not in ("", "0", "0.0")

"""Adapters that are put into the trained model's base again, behind the training.

model = AutoModelForCausalLM.from_pretrained(MODEL)
trainer = SFTTrainer(model, peft_config=peft_config, ...)
trainer.train()
model = PeftModel.from_pretrained(model, "out/best")      those of the folder: rt.load_adapter(model, "out/best")
model = get_peft_model(model, LoraConfig.from_pretrained("out"))    new ones, B zero: rt.renew_adapters(model)

PEFT puts adapters into the model that it gets: `model` has those that were trained, and gets others of the same name in
their place.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, Site, step
from porter.packs.script import (
    AGAIN,
    Module,
    calls_of,
    followed,
    function_around,
    named_arguments,
    origins,
    put_in_again,
)
from porter.packs.training import Training, facts_of

from .merging.merged_adapters import merge_of

PART_OF = "TP204"

NEW, SAVED = "TP202", "TP204"
GIVES_NEW = "peft.get_peft_model"
OF_CONFIG = ("peft.LoraConfig.from_pretrained", "peft.PeftConfig.from_pretrained")
# Keywords that change nothing of what a model with these adapters computes.
IDLE = frozenset(
    "device_map torch_device dtype torch_dtype low_cpu_mem_usage offload_folder offload_dir is_trainable".split()
)
REASON = "they take the place of those that were trained"


@step(Phase.FIND, reads=("merged adapters",), fills=(AGAIN,))
def note_again(porting: Training) -> None:
    """Note in the module which calls put adapters in again, so that the model is followed through them."""
    module = porting.module
    found: dict[cst.Call, cst.BaseExpression] = {}
    for call in module.calls:
        given = _given(module, call)
        trainer = _trainer_before(porting, call) if given is not None else None
        if given is not None and trainer is not None and _is_trained_base(porting, given[0], trainer):
            found[call] = given[0]
    module.memory[AGAIN] = found
    if found:
        module.memory["merged"] = {**module.memory.get("merged", {}), **found}
        module.memory.pop("makers", None)


@step(Phase.WRITE, of="trainer", reads=("names", AGAIN))
def write_again(porting: Porting) -> None:
    """The runtime's functions, which do it to the model that was trained."""
    module = porting.module
    for call, model in put_in_again(module).items():
        given = _given(module, call)
        if porting.model is None or given is None or not any(n is porting.model.node for n in origins(module, model)):
            continue
        line, column = module.location(call)
        trained = _trained(porting, call, model)
        if trained is None:
            code = " ".join(module.code(call.func).split())
            message = f"{code}: where the model that was trained is held isn't known here."
            porting.find(SAVED, "error", message, "Give it to rt.load_adapter or rt.renew_adapters.", line, column)
        elif module.qualified(call.func) == GIVES_NEW:
            seed = porting.value("run.seed")
            new = f"{porting.rt('renew_adapters')}({trained}, seed={seed.code if seed and seed.known else 42})"
            porting.edit(*module.span(call), new, NEW, REASON)
            _drop_config(porting, given[1])
            message = (
                "get_peft_model behind the training: PEFT puts new adapters in the place of those that were trained."
            )
            message += " What generates or is saved from here on is the base model, on the GPU and in the port."
            fix = "Take the line out to go on with what was trained."
            porting.find(NEW, "warning", message, fix, line, column)
        else:
            new = f"{porting.rt('load_adapter')}({trained}, {module.code(given[1])})"
            merge = merge_of(module, call)  # on the spot
            if merge is not None:
                new = f"{porting.rt('merge_and_unload')}({new})"
            porting.edit(*module.span(merge or call), new, SAVED, REASON)


def _drop_config(porting: Porting, config: cst.BaseExpression) -> None:
    """`config = LoraConfig.from_pretrained("out")` goes where only this reads it."""
    module = porting.module
    found = module.single_binding(config)
    made = found.value if found is not None else None
    if (
        not isinstance(config, cst.Name)
        or not isinstance(made, cst.Call)
        or module.qualified(made.func) not in OF_CONFIG
    ):
        return
    if len(module.references(config.value, module.scope(made))) == 1:
        porting.remove_statement(made, NEW, "nothing reads it")


def _given(module: Module, call: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The model and the folder or configuration of a call that puts adapters in; None where it says more."""
    name = module.qualified(call.func)
    if name != GIVES_NEW and name not in facts_of(module).loads_adapters:
        return None
    second = "peft_config" if name == GIVES_NEW else "model_id"
    found = named_arguments(call, ("model", second))
    if not {"model", second} <= found.keys() <= {"model", second, *IDLE} or not isinstance(found["model"], cst.Name):
        return None
    return found["model"], found[second]


def _trainer_before(porting: Training, call: cst.Call) -> Site | None:
    """The last trainer that is made, and so trains, in front of a call: of its function, or of one called above it."""
    module, function, start = porting.module, function_around(porting.module, call), porting.module.span(call)[0]
    found = None
    for site in porting.sites:
        if site.role != "trainer" or module.loops(call):
            continue
        around = function_around(module, site.node)
        places = [site.node] if around is function or around is None else calls_of(module, around)
        if places and all(function_around(module, place) is function for place in places):
            if all(module.span(place)[1] <= start for place in places) and ".train(" in module.text[site.start : start]:
                found = site
    return found


def _is_trained_base(porting: Training, model: cst.BaseExpression, trainer: Site) -> bool:
    """Whether a variable is the base of the model that was trained, with its adapters in it, and not the PeftModel."""
    module, given = porting.module, trainer.argument("model")
    loads = {site.node for site in porting.sites if site.role == "model"}
    adapts = {site.node: site.argument("model") for site in porting.sites if site.role == "inject"}
    held = list(origins(module, model))
    trained = {*origins(module, given.node)} if given is not None else set()
    if any(node in adapts for node in held):
        return False
    bases = [base for node, base in adapts.items() if node in trained and base is not None]
    for base in bases:
        trained |= {*origins(module, base.node)}
    calls = [node for node in held if node in module.callees]  # a function may load another each time
    same = any(node in trained and node in loads for node in held) and all(node in trained for node in calls)
    return same and (bool(bases) or trainer.argument("peft_config") is not None)


def _trained(porting: Porting, call: cst.Call, model: cst.BaseExpression) -> str | None:
    """The name of the model with the trained adapters where a call stands."""
    module, inject = porting.module, porting.inject
    if inject is None:  # the trainer put them in, where it is made
        trainer = porting.trainer
        same = trainer is not None and function_around(module, call) is function_around(module, trainer.node)
        return module.code(model) if same else None
    start, scope = module.span(call)[0], module.scope(call)
    assert isinstance(inject.node, cst.Call)
    for place in followed(module, [inject.node], placed=True)[0]:
        meant = scope.lookup(place.variable)
        if meant is not None and meant[0] is place.scope:
            if any(module.span(binding.node)[1] <= start for binding in meant[1]):
                return place.variable
    return None

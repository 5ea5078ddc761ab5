"""Classes of the file that extend a trainer: ported as their base where they add nothing, refused by what they add."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...source.module import Module
from ...source.scopes import first_parameter

# What a method of transformers' Trainer decides, when a subclass overrides it, and where Tunix has that.
HOOKS = {
    "compute_loss": ("a loss of its own", "trainer.with_loss_fn(...)"),
    "training_step": ("a training step of its own", "trainer.with_loss_fn(...)"),
    "prediction_step": ("an evaluation step of its own", "a loop of your own over the trained model"),
    "get_train_dataloader": ("batches of its own", "what trainer.train(...) is given"),
    "get_eval_dataloader": ("evaluation batches of its own", "what trainer.train(...) is given"),
    "_get_train_sampler": ("an order of the rows of its own", "what trainer.train(...) is given"),
    "create_optimizer": ("an optimizer of its own", "optax.chain(...)"),
    "create_scheduler": ("a schedule of its own", "the schedule in optax.chain(...)"),
    "create_optimizer_and_scheduler": ("an optimizer of its own", "optax.chain(...)"),
    "log": ("log lines of its own", "rt.log_every(...)"),
    "evaluate": ("an evaluation of its own", "rt.evaluate(...)"),
    "evaluation_loop": ("an evaluation of its own", "rt.evaluate(...)"),
    "save_model": ("a way of saving of its own", "rt.save_model(...)"),
    "_save": ("a way of saving of its own", "rt.save_model(...)"),
    "_save_checkpoint": ("checkpoints of its own", "checkpointing_options"),
    "_save_rng_state": ("random states of its own in checkpoints", "checkpointing_options"),
    "_load_rng_state": ("random states of its own when it resumes", "rt.resume_dir(...)"),
}


# Of these, the ones that change nothing of what is trained: the trainer ports without them, and a person is told.
BESIDE = frozenset({"log", "save_model", "_save", "_save_checkpoint", "_save_rng_state", "_load_rng_state"})
# Of these, the ones that are there for a checkpoint of the GPU alone, which no port reads: nobody needs to see to them.
OF_CHECKPOINTS = frozenset({"_save_rng_state", "_load_rng_state"})


def base_of(module: Module, node: cst.BaseExpression) -> str | None:
    """The imported class that a class of this file extends, directly or through other classes of the file."""
    return module.qualified(imported_base(module, node)) if class_of(module, node) is not None else None


def imported_base(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """The name of the imported class behind a class of this file; `node` itself when it is no class of this file."""
    for _ in range(10):
        definition = class_of(module, node)
        if definition is None or not definition.bases:
            break
        bases = [base.value for base in definition.bases]
        node = next((base for base in bases if module.qualified(base)), bases[0])
    return node


def class_of(module: Module, node: cst.BaseExpression) -> cst.ClassDef | None:
    """The class of this file that a name means; `class Trainer(Trainer)` behind its import as well."""
    found = module.meaning(node) if isinstance(node, cst.Name) else None
    if found is None or not isinstance(node, cst.Name):
        return None
    bindings = module.meant(node, found[1])
    defined = [binding for binding in bindings if isinstance(binding.node, cst.ClassDef)]
    if len(bindings) > 1 and len(defined) == 1 and _extends_its_name(defined[0].node):
        bindings = [binding for binding in bindings if binding.kind != "import"]
    binding = bindings[0] if len(bindings) == 1 and not bindings[0].conditional else None
    return binding.node if binding is not None and isinstance(binding.node, cst.ClassDef) else None


def _extends_its_name(definition: cst.CSTNode) -> bool:
    return isinstance(definition, cst.ClassDef) and any(
        isinstance(base.value, cst.Name) and base.value.value == definition.name.value for base in definition.bases
    )


def added(module: Module, node: cst.BaseExpression) -> list[str]:
    """The methods that a class of this file, and those between it and the imported one, add or override."""
    found: list[str] = []
    while (definition := class_of(module, node)) is not None and definition.bases:
        found += (name for name in _methods(module, definition) if name not in found)
        node = definition.bases[0].value
    return found


def trains_otherwise(module: Module, node: cst.BaseExpression) -> bool:
    """Whether what a class of this file adds may change what is trained."""
    return not set(added(module, node)) <= BESIDE


def refusal(methods: list[str]) -> tuple[str, str]:
    """What a subclass does in methods that Tunix's trainer hasn't, and what to do."""
    known = [(name, *HOOKS[name]) for name in methods if name in HOOKS]
    if set(methods) <= BESIDE:
        said = ", ".join(f"{what} ({name})" for name, what, _ in known)
        places = ", ".join(dict.fromkeys(place for _, _, place in known))
        return (
            f"the subclass has {said}, which the port doesn't call",
            f"It has {places}: do behind it what is missing.",
        )
    if not known:
        names = ", ".join(f"{name}()" for name in methods)
        return f"it has methods of its own ({names})", "Make the trainer itself, and these functions beside it."
    said = ", ".join(f"{what} ({name})" for name, what, _ in known)
    places = ", ".join(dict.fromkeys(place for _, _, place in known))
    return f"the subclass has {said}", f"Port the script with the trainer itself, and put that into {places}."


def _methods(module: Module, definition: cst.ClassDef) -> Iterator[str]:
    for statement in definition.body.body:
        if isinstance(statement, cst.FunctionDef) and not _passes_on(module, statement):
            yield statement.name.value


def _passes_on(module: Module, function: cst.FunctionDef) -> bool:
    """`def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)`."""
    if function.name.value != "__init__" or not isinstance(function.body, cst.IndentedBlock):
        return False
    code = [module.code(statement) for statement in function.body.body]
    calls = [text for text in code if not text.startswith(('"', "'"))]
    star, stars = function.params.star_arg, function.params.star_kwarg
    given = [f"*{star.name.value}"] if isinstance(star, cst.Param) else []
    given += [f"**{stars.name.value}"] if stars is not None else []
    alone = len(function.params.params) == 1 and first_parameter(function) is not None
    return alone and calls == [f"super().__init__({', '.join(given)})"]

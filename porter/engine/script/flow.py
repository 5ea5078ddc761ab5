"""Where values come from, through names, attributes of `self`, returns and parameters of functions.

The way ends where the file shows no more, or more than one possibility. `where_values_go.py` is the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import libcst as cst

from ...source.calls import function_around, given_by_only_call, may_not_run, returned
from ...source.module import Module
from ...source.scopes import Binding
from .sites import facts_of

# Methods behind from_pretrained(...) that say where the torch model stands, in which type, or how it is switched.
PLACEMENT = ("to", "cuda", "train", "eval", "half", "bfloat16", "float")
# An expression that may stand for a model or a trainer.
Variable = cst.Name | cst.Attribute | cst.Call | cst.Subscript
ASSIGNS = (cst.Assign, cst.AnnAssign, cst.NamedExpr)
MAX_DEPTH = 20
MAX_NESTED = 6  # functions that hand a model on to one another
MAX_BINDINGS = 200  # of one name; what is bound more often is followed no further
MOST_MAKERS = 16  # bindings of a name of which the last is looked for
Adapts = Literal["yes", "perhaps", "no"]
Answer = TypeVar("Answer")


AGAIN = "adapters put in again"  # of the module's memory: calls behind the training, and the model that each gets


def put_in_again(module: Module) -> Mapping[cst.Call, cst.BaseExpression]:
    """The calls that put adapters into the trained model once more, with the model that they get and give back."""
    found: Mapping[cst.Call, cst.BaseExpression] = module.memory.get(AGAIN, {})
    return found


def without_placement(node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """The `from_pretrained(...)` in `from_pretrained(...).to(device)`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in PLACEMENT:
        node = node.func.value
    return node


def unprepared(module: Module, node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """The model in `prepare_model_for_kbit_training(model)`, `set_peft_model_state_dict(model, weights)`, and in what
    merges a saved adapter into it."""
    merged = module.memory.get("merged", {})
    if node in merged:
        return unprepared(module, without_placement(merged[node]))
    if isinstance(node, cst.Call) and node.args and (_wraps(module, node) or _prepares(module, node)):
        named = next(
            (arg for arg in node.args if arg.keyword is not None and arg.keyword.value == "model"), node.args[0]
        )
        return without_placement(named.value)
    return node


def _prepares(module: Module, call: cst.Call) -> bool:
    return module.qualified(call.func) in facts_of(module).gives_back


def _wraps(module: Module, call: cst.Call) -> bool:
    """Whether a method of a library's object gives back what it gets: `accelerator.prepare(model)`."""
    func, gives_back = call.func, facts_of(module).gives_back
    if len(call.args) != 1 or not isinstance(func, cst.Attribute):
        return False
    method = f"().{func.attr.value}"
    makers = {name.removesuffix(method) for name in gives_back if name.endswith(method)}
    if not makers:
        return False
    found = module.meaning(func.value)
    made = [binding.value for binding in found[1]] if found is not None else []
    names = [module.qualified(value.func) for value in made if isinstance(value, cst.Call)]
    return not makers.isdisjoint(names)


def origins(module: Module, node: cst.BaseExpression | None) -> Iterator[cst.BaseExpression]:
    """The expressions that `node` stands for, from itself back to what made it."""
    return _trace(module, node, None)


def binding_origins(module: Module, binding: Binding) -> Iterator[cst.BaseExpression]:
    """The expressions that a binding gives its name the value of, back to what made it."""
    return _trace(module, binding.value, binding.index) if binding.kind in ("assign", "unpack") else iter(())


def bound_value(module: Module, binding: Binding) -> cst.BaseExpression | None:
    """What a binding gives its name; of a parameter, what the one call of its function gives."""
    if binding.kind == "parameter":
        return given_by_only_call(module, binding)
    return next(binding_origins(module, binding), None)


def _trace(module: Module, node: cst.BaseExpression | None, index: int | None) -> Iterator[cst.BaseExpression]:
    for _ in range(MAX_DEPTH):
        node = unprepared(module, without_placement(node))
        if node is None:
            return
        if index is None:
            yield node
        step = _element(module, node, index) or _back(module, node, index)
        if step is None:
            return
        node, index = step


def makes_pair(module: Module, node: cst.CSTNode) -> bool:
    """Whether a call gives back (model, tokenizer)."""
    return isinstance(node, cst.Call) and module.qualified(node.func) in facts_of(module).loads_pair


def _element(module: Module, node: cst.BaseExpression, index: int | None) -> tuple[cst.BaseExpression, None] | None:
    if index == 0 and makes_pair(module, node):
        return node, None
    if (
        index in (0, 1)
        and isinstance(node, cst.Call)
        and module.qualified(node.func) in facts_of(module).gives_back_pair
    ):
        named = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
        given = named.get("model" if index == 0 else "tokenizer")
        if given is None and index < len(node.args) and node.args[index].keyword is None:
            given = node.args[index].value
        return (given, None) if given is not None else None
    if index is None or not isinstance(node, cst.Tuple | cst.List) or index >= len(node.elements):
        return None
    return node.elements[index].value, None


def _back(
    module: Module, node: cst.BaseExpression, index: int | None
) -> tuple[cst.BaseExpression | None, int | None] | None:
    """One step back from an expression (of which part `index` is meant)."""
    if isinstance(node, cst.Call) and (function := module.callees.get(node)) is not None:
        if function.name.value == "__init__":
            return None
        values = returned(module, function)
        return (values[0], index) if len(values) == 1 else None
    binding = _maker(module, node)
    if binding is None or index is not None:
        return None
    if binding.kind == "assign":
        return binding.value, None
    if binding.kind == "unpack":
        return binding.value, binding.index
    if binding.kind == "parameter" and isinstance(binding.node, cst.Param):
        return given_by_only_call(module, binding), None
    return None


def _maker(module: Module, node: cst.BaseExpression) -> Binding | None:
    """The one binding that makes what a variable holds; `model = prepare(model)` gives it its own value again.

    A question that comes up again while it is being answered (`a = b`, `b = a`) has no answer there. What was found
    by way of that, or of a bound on their number, holds until all questions are closed; the rest for good.
    """
    questions = _questions(module)
    for answers in (questions.answered, questions.meanwhile):
        if node in answers:
            questions.cuts += answers is questions.meanwhile
            return answers[node]
    if node in questions.open:
        questions.cuts += 1
        return None
    questions.open.add(node)
    before = questions.cuts
    try:
        answer = _find_maker(module, node)
    finally:
        questions.open.discard(node)
    if questions.cuts == before or not (questions.open or questions.asked):
        questions.answered[node] = answer
    else:
        questions.meanwhile[node] = answer
    questions.closed()
    return answer


@dataclass
class _Questions:
    """What was asked of a file: what is open, what was answered meanwhile, what for good."""

    open: set[cst.BaseExpression] = field(default_factory=set)
    asked: list[cst.CSTNode] = field(default_factory=list)  # bindings that `_adapts` is at
    meanwhile: dict[cst.BaseExpression, Binding | None] = field(default_factory=dict)
    answered: dict[cst.BaseExpression, Binding | None] = field(default_factory=dict)
    cuts: int = 0  # answers that hang on what is open

    def closed(self) -> None:
        """Forgets what hung on open questions, when none is."""
        if not self.open and not self.asked:
            self.meanwhile.clear()


def _questions(module: Module) -> _Questions:
    found: _Questions = module.memory.setdefault("makers", _Questions())
    return found


def _once(
    module: Module, asked: str, binding: Binding, variable: cst.BaseExpression, answer: Callable[[], Answer]
) -> Answer:
    """What is asked of a binding and of a variable, whichever of its uses: kept, where it hangs on no open question."""
    key = (asked, id(binding), *_named(module, variable), len(module.memory.get("merged", ())))
    if key in module.memory:
        kept: Answer = module.memory[key]
        return kept
    questions = _questions(module)
    before = questions.cuts
    found = answer()
    if questions.cuts == before:
        module.memory[key] = found
    return found


def _named(module: Module, variable: cst.BaseExpression) -> tuple[int | None, str]:
    """The scope that a variable is bound in, by its id, as the file keeps its scopes and bindings, and its code."""
    names = module.memory.setdefault("names of variables", {})
    if variable not in names:
        meant = module.meaning(variable)
        names[variable] = (id(meant[0]) if meant is not None else None, module.code(variable))
    found: tuple[int | None, str] = names[variable]
    return found


def _find_maker(module: Module, node: cst.BaseExpression) -> Binding | None:
    found = module.meaning(node)
    if found is None or len(found[1]) > MAX_BINDINGS:
        return None
    made = found[1] if len(found[1]) == 1 else _without_later(module, found[1], node)
    makers = made if len(made) == 1 else [item for item in made if not is_itself(module, item, node)]
    makers = _without_adapters(module, _from_last_made(module, makers, node), node)
    return makers[0] if len(makers) == 1 and not may_not_run(module, makers[0], node) else None


def _from_last_made(module: Module, makers: list[Binding], node: cst.BaseExpression) -> list[Binding]:
    """The bindings but those in front of the last that surely runs before `node`, in its function, and makes the
    variable's value anew: `model = load()`, not `model = get_peft_model(model, ...)`."""
    if not 2 <= len(makers) <= MOST_MAKERS:
        return makers
    function, start = function_around(module, node), module.span(node)[0]
    blocks = {item for item in module.ancestors(node) if isinstance(item, cst.BaseSuite | cst.Module)}
    last = 0
    for item in makers:
        begin, end = module.span(item.node)
        if end > start or begin < last or item.kind not in ("assign", "unpack"):
            continue
        if module.parents[module.statement(item.node)] in blocks and function_around(module, item.node) is function:
            if _adapts(module, item, node) == "no":
                last = begin
    return [
        item
        for item in makers
        if module.span(item.node)[0] >= last or function_around(module, item.node) is not function
    ]


# Of a binding: where a use has to end behind to have it (a parameter anywhere, what is assigned only behind the whole
# of it), where it ends, its function and its loops.
_Place = tuple[int, int, cst.CSTNode | None, frozenset[cst.CSTNode]]


def _without_later(module: Module, bindings: list[Binding], node: cst.CSTNode) -> list[Binding]:
    """The bindings of a name but those behind the place where it is read, or by what is made of it there, in the same
    function and in no loop with it."""
    start, end = module.span(node)
    function, loops = function_around(module, node), module.loops(node)
    return [
        binding
        for binding, (begin, stop, around, repeated) in zip(bindings, _places(module, bindings), strict=True)
        if stop <= start or begin < end or around is not function or loops & repeated
    ]


def _places(module: Module, bindings: list[Binding]) -> list[_Place]:
    """Where the bindings of a name stand: known once, for each place where it is read."""
    key = ("places of bindings", id(bindings), len(bindings))  # the file keeps its bindings
    if key not in module.memory:
        module.memory[key] = [_place(module, binding) for binding in bindings]
    found: list[_Place] = module.memory[key]
    return found


def _place(module: Module, binding: Binding) -> _Place:
    node = binding.node
    begin, stop = module.span(node)
    begin = -1 if binding.kind == "parameter" else len(module.text) if isinstance(node, ASSIGNS) else begin
    return begin, stop, function_around(module, node), module.loops(node)


def _without_adapters(module: Module, makers: list[Binding], node: cst.BaseExpression) -> list[Binding]:
    """Of `model = load(...)` and `model = get_peft_model(model, ...)` the one that holds where `node` stands."""
    found = [(item, said) for item in makers if (said := _adapts(module, item, node)) != "no"]
    wraps = [item for item, _ in found]
    if len(makers) < 2 or len(wraps) != 1:
        return makers
    if (
        may_not_run(module, wraps[0], node) or found[0][1] == "perhaps"
    ):  # with adapters or without, the other one loads it
        return [item for item in makers if item is not wraps[0]]
    behind = module.span(wraps[0].node)[1] <= module.span(node)[0]
    return wraps if behind else [item for item in makers if item is not wraps[0]]


def _adapts(module: Module, binding: Binding, variable: cst.BaseExpression) -> Adapts:
    """Whether a binding puts adapters into what the variable holds, here or in a function that it is given to.

    Perhaps: the function may also give the model back as it is, `if not use_lora: return model`.
    """
    if binding.kind not in ("assign", "unpack"):
        return "no"
    return _once(module, "adapts", binding, variable, lambda: _find_adapts(module, binding, variable))


def _find_adapts(module: Module, binding: Binding, variable: cst.BaseExpression) -> Adapts:
    questions, asked = _questions(module), binding.node
    if asked in questions.asked or len(questions.asked) > MAX_NESTED:  # so that no circle of names is followed
        questions.cuts += 1
        return "no"
    questions.asked.append(asked)
    try:
        chains = _chains(module, binding)
        wrapped = [_wrapped(module, chain) for chain in chains]
        others = [chain for chain, inner in zip(chains, wrapped, strict=True) if inner is None]
        adapted = [origins(module, inner) for inner in wrapped if inner is not None]
        if not adapted or not all(any(is_same(module, v, variable) for v in one) for one in (*adapted, *others)):
            return "no"
        return "perhaps" if others else "yes"
    finally:
        questions.asked.pop()
        questions.closed()


def _chains(module: Module, binding: Binding) -> list[list[cst.BaseExpression]]:
    """What a binding's value may be, each back to what made it: one for every return of a function of the file."""
    chain = [*binding_origins(module, binding)]
    last = chain[-1] if chain else binding.value
    function = module.callees.get(last) if isinstance(last, cst.Call) else None
    if function is None or function.name.value == "__init__" or not (values := returned(module, function)):
        return [chain] if chain else []
    if chain or binding.index is None:
        return [[*origins(module, value)] for value in values]
    parts = [_element(module, value, binding.index) for value in values]
    return [[*origins(module, part[0])] if part is not None else [] for part in parts]


def _wrapped(module: Module, chain: list[cst.BaseExpression]) -> cst.BaseExpression | None:
    """The model that a value puts adapters into; None when it puts none in."""
    made = next((node for node in chain if _puts_in(module, node)), None)
    return made.args[0].value if isinstance(made, cst.Call) else None


def _puts_in(module: Module, value: cst.BaseExpression) -> bool:
    if not isinstance(value, cst.Call) or not value.args:
        return False
    name, facts = module.qualified(value.func) or "", facts_of(module)
    new = {each.rpartition(".")[2] for each in facts.puts_in_adapters}  # of whatever class or module of the library
    return ("." in name and name.rpartition(".")[2] in new) or (
        name in facts.loads_adapters and _is_trained(module, value)
    )


def is_same(module: Module, value: cst.BaseExpression, variable: cst.BaseExpression) -> bool:
    """Whether two expressions are the same variable."""
    one, other = module.meaning(value), module.meaning(variable)
    same = one is not None and other is not None and one[0] is other[0]
    return same and module.code(value) == module.code(variable)


def _is_trained(module: Module, call: cst.Call) -> bool:
    """Whether a saved adapter is loaded to be trained."""
    asked = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "is_trainable"]
    return any(module.code(arg.value) == "True" for arg in asked)


def is_itself(module: Module, binding: Binding, variable: cst.BaseExpression) -> bool:
    """Whether a binding gives a variable back what it holds: `model = model.to(device)`, `model = prepare(model)`."""

    def answer() -> bool:
        return any(is_same(module, value, variable) for value in binding_origins(module, binding))

    return _once(module, "itself", binding, variable, answer)

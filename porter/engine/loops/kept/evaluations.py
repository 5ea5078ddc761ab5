"""The evaluations of an epoch: loops over a validation loader that take each batch's loss as a number.

def evaluate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for batch in loader:
            total += model(**batch.to(device)).loss.item()
    return total / len(loader)

The port's `loader` gives the losses. Whatever else a loop reads of the model or of the loader, it isn't read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from ....source.calls import argument_of, calls_of, function_around
from ....source.module import Module
from ....source.scopes import inside, walk
from ...script.sites import Site
from ...script.training import Training
from ..statements.blocks import last_name, lines_of
from ..statements.facts import Loop
from ..statements.forward import ModelCall
from .batch_losses import BatchLosses
from .carried_names import read_outside
from .facts import Evaluated, KeptEpochs

DEEPEST = 3  # functions that call one another
COUNTING = ("len", "tqdm", "enumerate", "prepare", "iter")
PLAIN = ("batch_size", "dataset", "collate_fn", "shuffle", "num_workers", "pin_memory", "drop_last", "sampler",
         "persistent_workers", "prefetch_factor", "timeout")  # fmt: skip
OF_NUMBERS = ("math", "numpy", "statistics", "")
ALIKE = ("collate_fn", "drop_last")  # of the loader that is trained on, too


def read_evaluations(porting: Training, loop: Loop, found: KeptEpochs, lines: Sequence[cst.CSTNode]) -> bool:
    """Whether each evaluation of the epoch is a loop over a DataLoader of the file whose losses it takes as numbers."""
    module = porting.module
    read: set[cst.CSTNode] = set()
    for line in lines:
        for node, call in _loops_of(module, line):
            if node in read or not any(_calls_model(module, loop, each, call) for each in walk(node.body)):
                continue
            read.add(node)
            function = function_around(module, node) if call is not None else None
            calls = calls_of(module, function) if function is not None else [None]
            if any(each is not None and not _is_at_epoch(module, loop, each) for each in calls):
                return False
            for each in calls:
                if not _note_loader(porting, loop, found, node, each):
                    return False
            evaluated = _evaluated(module, loop, node, call, function, found.batches)
            if evaluated is None or not _is_only_counted(porting, node, call):
                return False
            found.evaluated.append(evaluated)
    if not all(_is_only_counted_at(module, loop, found, name) for name in found.loaders):
        return False
    known = {each.loop for each in found.evaluated}
    loaders = {site.variable for site in porting.sites if site.role == "loader"} | set(found.loaders)
    nodes = [node for line in lines for node in inside(line)]
    return not any(_evaluates_unread(module, loop, known, loaders, node, 0) for node in nodes)


def batch_of(module: Module, loop: cst.For) -> cst.BaseExpression:
    """`batch` of `for step, batch in enumerate(loader)`."""
    target = loop.target
    if isinstance(target, cst.Tuple) and "enumerate(" in module.code(loop.iter) and len(target.elements) == 2:
        return target.elements[1].value
    return target


def _evaluates_unread(
    module: Module, loop: Loop, known: set[cst.For], loaders: set[str | None], node: cst.CSTNode, depth: int
) -> bool:
    """Whether a call runs the model elsewhere than in the loops that are read, or gives a loader to another file."""
    if not isinstance(node, cst.Call) or known & set(module.ancestors(node)):
        return False
    if module.code(node.func) in (loop.model, "model"):
        return True
    function = module.callees.get(node)
    if function is not None and depth < DEEPEST:
        body = inside(function.body)
        return any(_evaluates_unread(module, loop, known, loaders, each, depth + 1) for each in body)
    given = {module.code(argument.value) for argument in node.args}
    return function is None and bool(given & loaders) and last_name(node.func) not in COUNTING


def _is_only_counted(porting: Training, node: cst.For, call: cst.Call | None) -> bool:
    """Whether a function asks no more of the loader that it is given than its batches and their number."""
    if call is None:
        return True
    source = _loader_of(node)
    meant = porting.module.scope(node).lookup(source.value) if isinstance(source, cst.Name) else None
    if meant is None or not isinstance(source, cst.Name):
        return False
    uses = porting.module.references(source.value, meant[0])
    return all(use is source or _asks_little(porting.module, use) for use in uses)


def _is_only_counted_at(module: Module, loop: Loop, found: KeptEpochs, name: str) -> bool:
    """The same of a loader where the loop stands: it may also be given to the functions that evaluate it."""
    meant = module.scope(loop.statement).lookup(name)
    if meant is None:
        return False
    functions = {each.function for each in found.evaluated if each.function is not None}
    sources = {_loader_of(each.loop) for each in found.evaluated}
    for use in module.references(name, meant[0]):
        argument = module.parents[use]
        call = module.parents[argument] if isinstance(argument, cst.Arg) else None
        prepares = isinstance(call, cst.Call) and last_name(call.func) == "prepare"
        given = isinstance(call, cst.Call) and (module.callees.get(call) in functions or prepares)
        if use not in sources and not given and not _asks_little(module, use):
            return False
    return True


def _asks_little(module: Module, use: cst.CSTNode) -> bool:
    """`len(loader)`, `if loader:`, `loader is not None`."""
    parent = module.parents[use]
    call = module.parents[parent]
    counted = isinstance(call, cst.Call) and module.code(call.func) == "len"
    tested = isinstance(parent, cst.If | cst.IfExp) and parent.test is use
    return counted or tested or (isinstance(parent, cst.Comparison) and "None" in module.code(parent))


def _loader_of(node: cst.For) -> cst.BaseExpression:
    """`loader` of `for step, batch in enumerate(tqdm(loader))`."""
    source = node.iter
    while isinstance(source, cst.Call) and last_name(source.func) in ("tqdm", "enumerate") and source.args:
        source = source.args[0].value
    return source


def _loops_of(module: Module, line: cst.CSTNode) -> Iterator[tuple[cst.For, cst.Call | None]]:
    """The loops in a line, and in the functions of the file that it calls, with the call."""
    for node in inside(line):
        if isinstance(node, cst.For):
            yield node, None
        function = module.callees.get(node) if isinstance(node, cst.Call) else None
        if function is not None and isinstance(node, cst.Call):
            yield from ((each, node) for each in inside(function.body) if isinstance(each, cst.For))


def _calls_model(module: Module, loop: Loop, node: cst.CSTNode, call: cst.Call | None) -> bool:
    """Whether a node calls the model that is trained."""
    return isinstance(node, cst.Call) and outside(module, node.func, call) == loop.model


def outside(module: Module, node: cst.BaseExpression, call: cst.Call | None) -> str:
    """What an expression of a function is where that is called: `val_loader` of `loader`."""
    if call is not None and isinstance(node, cst.Name):
        given = argument_of(module, call, node.value)
        function = module.callees[call]
        bound = [each.kind for each in module.scopes[function].bindings.get(node.value, ())]
        if bound:
            return module.code(given) if bound == ["parameter"] and given is not None else ""
    return module.code(node)


def _is_at_epoch(module: Module, loop: Loop, call: cst.Call) -> bool:
    """Whether a call stands in the loop over epochs, or behind it in its function."""
    if function_around(module, call) is not function_around(module, loop.statement):
        return False
    behind = module.span(call)[0] >= module.span(loop.statement)[1] and not module.loops(loop.statement)
    return behind or loop.statement in module.ancestors(call)


def _note_loader(porting: Training, loop: Loop, found: KeptEpochs, node: cst.For, call: cst.Call | None) -> bool:
    """Whether a loop goes over a DataLoader of the file that a port can evaluate, which is noted."""
    module, source = porting.module, _loader_of(node)
    name = outside(module, source, call)
    if not isinstance(source, cst.Name) or not name.isidentifier():
        return False
    here = module.scope(loop.statement)
    meant = module.scope(node).lookup(name) if call is not None and source.value == name else None
    if meant is not None and meant[0].node is not module.callees[call] and meant[0] is not here:  # type: ignore[index]
        return False  # a name that functions share, and the port's is the loop's own
    function = function_around(module, loop.statement)
    holders = calls_of(module, function) if function is not None else []
    given = argument_of(module, holders[0], name) if len(holders) == 1 else None
    made = module.code(given) if given is not None else name
    sites = [site for site in porting.sites if site.role == "loader" and site.variable == made]
    if len(sites) != 1 or sites[0] is found.trained or not _is_plain(porting, loop, sites[0], found.trained):
        return False
    bound = here.lookup(name)
    if given is None and (bound is None or bound[0] is not sites[0].scope):
        return False
    found.loaders[name] = sites[0]
    return True


def _is_plain(porting: Training, loop: Loop, site: Site, trained: Site) -> bool:
    """Whether a loader gives its rows in order, in batches that are collated as those that are trained on."""
    if any(argument.name not in PLAIN for argument in site.arguments) or site.unknown_keywords:
        return False
    for name in ALIKE:
        own, other = site.argument(name), trained.argument(name)
        texts = [each.text if each is not None and each.text not in ("False", "None") else "" for each in (own, other)]
        if texts[0] != texts[1]:
            return False
    shuffle, sampler, rows = site.argument("shuffle"), site.argument("sampler"), site.argument("dataset")
    in_order = shuffle is None or shuffle.value.is_literal(False)
    plain = sampler is None or sampler.value.is_literal(None)
    around = set(porting.module.ancestors(loop.statement))
    always = not any(isinstance(each, cst.If | cst.For | cst.While | cst.Try) and each not in around
                     for each in porting.module.ancestors(site.node))  # fmt: skip
    return in_order and plain and rows is not None and always and site.place == "line"


def _evaluated(
    module: Module,
    loop: Loop,
    node: cst.For,
    call: cst.Call | None,
    function: cst.FunctionDef | None,
    trained: cst.For,
) -> Evaluated | None:
    """What a loop over a validation loader does with each batch's loss; None where it reads more of the model."""
    target = batch_of(module, node)
    reader = BatchLosses(module, target)
    uses: list[cst.BaseExpression] = []
    tensors: list[cst.BaseExpression] = []
    for line in reader.read(lines_of(node.body)):
        numbers = reader.numbers_in(line)
        added = line.value if isinstance(line, cst.AugAssign) and isinstance(line.operator, cst.AddAssign) else None
        for each in numbers:
            loss = reader.number(each)
            if loss is None or not _is_trained(module, loop, loss.called, call):
                return None
            if not loss.plain and (each is not added or calculates_with_tensors(module, loop, function)):
                return None
            tensors += [] if loss.plain else [each]
        if not reader.understood or not reader.is_free_of_batches(line, numbers):
            return None
        uses += numbers
    bound = [each for each in _names_in(node) if each.value in reader.held()]
    if any(read_outside(module, each, node, node, trained) for each in bound):
        return None
    if not reader.understood or not uses or node.orelse is not None:
        return None
    losses = sorted({*reader.forward.losses, *reader.numbers})
    name = losses[0] if len(losses) == 1 else "loss"
    return Evaluated(node, target, name, tuple(reader.parts), tuple(uses), tuple(tensors), function)


def _is_trained(module: Module, loop: Loop, called: ModelCall, by: cst.Call | None) -> bool:
    """Whether a call is one of the loop's model, given the same of the batch as it trains on."""
    same = dict(called.inputs) == loop.inputs and _masked(module, called) == _masked(module, loop)
    return same and called.call is not None and outside(module, called.call.func, by) == loop.model


def _names_in(node: cst.For) -> list[cst.Name]:
    """The names that a loop binds: the batch, and what its lines assign."""
    targets = [target for each in walk(node) if isinstance(each, cst.Assign) for target in each.targets]
    return [each for holder in (node.target, *targets) for each in walk(holder) if isinstance(each, cst.Name)]


def calculates_with_tensors(module: Module, loop: Loop, function: cst.FunctionDef | None) -> bool:
    """`torch.exp(total / n)`, where the total of losses is a tensor: the port's is a number."""
    lines = [function.body] if function is not None else []
    calls = [node for line in (loop.statement, *lines) for node in inside(line) if isinstance(node, cst.Call)]
    names = [module.qualified(call.func) or "" for call in calls]
    of_tensors = (name for name in names if name.partition(".")[0] not in OF_NUMBERS)
    return any(re.fullmatch(r"\w+\.(?:exp|stack|cat|mean|sum|log|distributed\.\w+)", name) for name in of_tensors)


def _masked(module: Module, holder: object) -> tuple[str, str] | None:
    found = getattr(holder, "unlabelled", None)
    return (found.key, module.code(found.value) if found.value is not None else "") if found is not None else None

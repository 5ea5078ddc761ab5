"""Reports of the GPU: lines that only print or log what torch.cuda or NVIDIA's driver says of it, or torch's CUDA.

What it does: takes out such lines, and the variables that were made for them alone. A line that tells of other things,
too, and a record (`{"gpu": torch.cuda.get_device_name(0)}`) have the TPU's name for the GPU's.
Why: there is no GPU to tell of, and torch need not be there.
Example: `print(f"{torch.cuda.max_memory_reserved() / 1024**3} GB reserved")`
Use instead: `tpu-port plan` for the memory; JAX's profiler for what a run takes.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Binding, Module, Scope, inside, only_logs

from ._drivers import asks_driver, is_asked_first, names_driver, starts_command

ID = "TP513"
REASON = "tells of a GPU"
ASKS = frozenset(
    f"torch.cuda.{name}"
    for name in """get_device_name get_device_properties get_device_capability memory_allocated memory_reserved
    max_memory_allocated max_memory_reserved mem_get_info memory_summary memory_stats current_device
    is_available utilization""".split()
)
BUILT_FOR = ("torch.version.cuda", "torch.version.hip", "torch.backends.cudnn.version")
NAME = "torch.cuda.get_device_name"
OTHERS = (".mps.is_available", ".mps.is_built", "torch.xpu.is_available", "torch.npu.is_available")  # other devices
# What a TPU has an answer to.
ANSWERED = ("torch.cuda.device_count", "torch.cuda.is_bf16_supported")
# Calls that such a line may make beside them, and names that it may read.
PLAIN = frozenset("round str int float format print info debug warning log len max min f decode strip".split())
EACH = re.compile(r"range\(\s*torch\.cuda\.device_count\(\)\s*\)")
LOGS = frozenset("print info debug warning log".split())


@step(Phase.ANSWER, reads=("gpu branches",), fills=("claimed names", "gpu reports"))
def drop_gpu_reports(porting: Porting) -> None:
    """Take out what only prints or logs what torch.cuda says of the device."""
    named = ("torch.cuda", "import cuda", "torch.version", "torch.backends.cudnn")
    if not any(name in porting.module.text for name in named) and not names_driver(porting.module):
        return
    lines: dict[Scope, list[cst.Expr | cst.If]] = {}
    for node in porting.module.parents:
        if isinstance(node, cst.Expr | cst.If):
            lines.setdefault(porting.module.scope(node), []).append(node)
    for scope in porting.module.scopes.values():
        told = _variables(porting, scope)
        for node in lines.get(scope, ()):
            if isinstance(node, cst.Expr) and _reports(porting, node, told):
                porting.remove_statement(node.value, ID, REASON)
            if isinstance(node, cst.If) and _warns(porting, node, told):
                porting.remove_statement(node, ID, REASON)
        _name_the_tpu(porting, scope)
        for made in dict.fromkeys(binding.node for binding in told.values()):
            if not porting.covered(porting.module.span(made)[0]):  # in a block that went
                porting.remove_statement(made, ID, REASON)


@step(Phase.ANSWER, reads=("gpu answers", "gpu capabilities"), fills=("claimed names",))
def drop_what_answers_left(porting: Porting) -> None:
    """Once more, now that what asks for a GPU is answered: what was told of that alone goes, too."""
    drop_gpu_reports(porting)


@step(Phase.SETTLE, reads=("leftovers",), fills=("functions",))
def drop_what_nothing_needs(porting: Porting) -> None:
    """And where the last lines that moved something to a device went with what replaces them."""
    drop_gpu_reports(porting)


def _name_the_tpu(porting: Porting, scope: Scope) -> None:
    """`print(f"{torch.cuda.get_device_name(0)}, {rows} rows")` and a record of the run tell of the TPU."""
    module = porting.module
    for call in module.calls_by_name.get(NAME, ()):
        if module.scope(call) is not scope:
            continue
        line = next(
            node for node in module.ancestors(call) if isinstance(node, cst.BaseSmallStatement | cst.BaseStatement)
        )
        said = line.value if isinstance(line, cst.Expr) else None
        logged = isinstance(said, cst.Call) and module.code(said.func).rsplit(".", 1)[-1] in LOGS
        if (logged or _is_recorded(module, call)) and not porting.covered(module.span(call)[0]):
            porting.edit(*module.span(call), "jax.devices()[0].device_kind", ID, "the name of the TPU")
            porting.imports.add("import jax")


def _is_recorded(module: Module, call: cst.Call) -> bool:
    """Whether a name is written into a record, `{"gpu": torch.cuda.get_device_name(0)}`, and nothing is made of it."""
    node: cst.CSTNode = call
    for around in module.ancestors(call):
        if isinstance(around, cst.DictElement):
            return around.value is node
        if not isinstance(around, cst.FormattedStringExpression | cst.FormattedString):
            return False
        node = around
    return False


def _variables(porting: Porting, scope: Scope) -> dict[str, Binding]:
    """The variables that hold what torch.cuda says and are read by nothing but reports."""
    found: dict[str, Binding] = {}
    grown, is_class = True, isinstance(scope.node, cst.ClassDef)
    while grown:
        grown = False
        for name, bindings in scope.bindings.items():
            if is_class and porting.module.attributes_named(name):
                continue
            made = bindings[0]
            if (
                name not in found
                and len(bindings) == 1
                and made.kind in ("assign", "unpack")
                and made.value is not None
            ):
                alone = isinstance(made.node, cst.Assign) and len(made.node.targets) == 1
                if alone and _is_about(porting, made.value, found):
                    found[name], grown = made, True
            elif name not in found and len(bindings) > 1 and _is_chosen(porting, bindings, found):
                found[name], grown = made, True
    while True:
        values = {made.value for made in found.values()}
        kept = {name: made for name, made in found.items() if _only_reported(porting, name, scope, found, values)}
        kept = {name: made for name, made in kept.items() if _all_go(porting, made, scope, kept)}
        if kept == found:
            return found
        found = kept


def _is_chosen(porting: Porting, bindings: list[Binding], told: dict[str, Binding]) -> bool:
    """Whether each branch of one `if`, which asks for a GPU, gives a variable a device: nothing else gives it one."""
    chains = set()
    for made in bindings:
        alone = isinstance(made.node, cst.Assign) and len(made.node.targets) == 1
        if not alone or made.value is None or not _is_place(porting, made.value):
            return False
        above: cst.CSTNode | None = None
        for node in porting.module.ancestors(made.node):
            if isinstance(node, cst.If):
                above = node
            elif not isinstance(node, cst.SimpleStatementLine | cst.IndentedBlock | cst.Else):
                break
        chains.add(above)
    only = next(iter(chains))
    return len(chains) == 1 and isinstance(only, cst.If) and _is_about(porting, only.test, told)


def _is_place(porting: Porting, value: cst.BaseExpression) -> bool:
    """`"cuda"`, `torch.device("mps")`."""
    if isinstance(value, cst.Call):
        named = porting.module.qualified(value.func) == "torch.device"
        return named and all(_is_written(porting, argument.value) for argument in value.args)
    return _is_written(porting, value)


def _all_go(porting: Porting, made: Binding, scope: Scope, told: dict[str, Binding]) -> bool:
    """Whether what `major, minor = ...` binds is told of or never read, so that the statement may go."""
    others = [node.value for node in inside(made.node.targets[0]) if isinstance(node, cst.Name)]  # type: ignore[attr-defined]
    return all(other in told or not porting.module.references(other, scope) for other in others)


def _only_reported(
    porting: Porting, name: str, scope: Scope, told: dict[str, Binding], values: set[cst.BaseExpression | None]
) -> bool:
    """Whether what reads a variable only tells of it, or is one of the values that are told of."""
    module = porting.module
    is_written = name in porting.written_words()
    for use in module.references(name, scope):
        if not is_written and porting.covered(module.span(use)[0]):
            continue
        around = [*module.ancestors(use)]
        line = next((node for node in around if isinstance(node, cst.Expr)), None)
        if any(isinstance(node, cst.If) and _warns(porting, node, told) for node in around):
            continue
        in_value = any(node in values for node in (use, *around))
        if not in_value and (line is None or not _reports(porting, line, told)):
            return False
    return True


def _reports(porting: Porting, line: cst.Expr, told: dict[str, Binding]) -> bool:
    """Whether a statement prints, logs or shows, as a notebook's cell does, nothing but what torch.cuda says."""
    call = line.value
    if _is_about(porting, call, told):
        return True
    if not isinstance(call, cst.Call) or not _logs(porting, call):
        return False
    return any(_is_about(porting, argument.value, told) for argument in call.args) and all(
        _is_about(porting, argument.value, told) or _is_written(porting, argument.value) for argument in call.args
    )


def _warns(porting: Porting, holder: cst.If, told: dict[str, Binding]) -> bool:
    """`if memory < 8: print("too small")`: whether an `if` asks what torch.cuda says, and only prints."""
    if not _is_about(porting, holder.test, told) or not _only_says(porting, holder.body, told):
        return False
    other = holder.orelse
    if isinstance(other, cst.If):
        return _warns(porting, other, told)
    return other is None or _only_says(porting, other.body, told)


def _only_says(porting: Porting, body: cst.BaseSuite, told: dict[str, Binding]) -> bool:
    """Whether a block prints, and makes for that what is told of: `props = torch.cuda.get_device_properties(0)`."""
    lines = [
        line
        for statement in body.body
        for line in (statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,))
    ]
    return all(_makes(line, told) or (isinstance(line, cst.Expr) and _says(porting, line, told)) for line in lines)


def _makes(line: cst.CSTNode, told: dict[str, Binding]) -> bool:
    """Whether a line gives a value to what is told of, and to nothing else."""
    target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
    named = isinstance(target, cst.Name) and target.value in told
    return named or any(binding.node is line for binding in told.values())


def _says(porting: Porting, line: cst.Expr, told: dict[str, Binding]) -> bool:
    call = line.value
    return (
        isinstance(call, cst.Call)
        and _logs(porting, call)
        and all(
            _is_written(porting, argument.value) or _is_about(porting, argument.value, told) for argument in call.args
        )
    )


def _logs(porting: Porting, call: cst.Call) -> bool:
    """Whether a call prints or logs what it is given, itself or by a function of the script."""
    return porting.module.code(call.func).rsplit(".", 1)[-1] in LOGS or only_logs(porting.module, call)


def _is_written(porting: Porting, value: cst.BaseExpression) -> bool:
    """A text that stands there, `"too old"`, `"=" * 80`, or torch's release."""
    if isinstance(value, cst.BinaryOperation):
        return _is_written(porting, value.left) and _is_written(porting, value.right)
    if isinstance(value, cst.Attribute):
        return porting.module.qualified(value) == "torch.__version__"
    if isinstance(value, cst.FormattedString):  # f"Memory:"
        return all(isinstance(part, cst.FormattedStringText) for part in value.parts)
    return isinstance(value, cst.SimpleString | cst.ConcatenatedString | cst.Integer)


def _is_about(porting: Porting, value: cst.BaseExpression, told: dict[str, Binding]) -> bool:
    """Whether an expression is made of what torch.cuda says, and of nothing else of the script's."""
    module, asks = porting.module, False
    started: set[cst.CSTNode] = set()  # nvidia-smi, with what says how
    for node in inside(value):
        if node in started:
            continue
        if isinstance(node, cst.Call):
            name = module.qualified(node.func)
            if _is_of_driver(porting, node):
                asks = True
                started |= {*inside(node)} if starts_command(module, node) else set()
            elif name in ASKS or name in BUILT_FOR or (name or "").endswith(OTHERS):
                asks = True
            elif name not in (*ANSWERED, "torch.device"):
                if module.code(node.func).rsplit(".", 1)[-1] not in PLAIN:
                    return False
        elif isinstance(node, cst.Attribute) and module.qualified(node) in BUILT_FOR:
            asks = True
        elif isinstance(node, cst.Name) and _is_read(module.parents[node], node):
            if node.value in told or _is_a_gpu(porting, node):
                asks = True
            elif node.value not in PLAIN and (module.qualified(node) or "").split(".", 1)[0] != "torch":
                if not asks_driver(module, node):
                    return False
    return asks


def _is_of_driver(porting: Porting, call: cst.Call) -> bool:
    """Whether a call asks NVIDIA's driver, and the port would end there: no `try` says what holds without one."""
    return asks_driver(porting.module, call) and not is_asked_first(porting, call)


def _is_a_gpu(porting: Porting, node: cst.Name) -> bool:
    """Whether a name is the number of a GPU, of a loop over all of them."""
    return any(
        isinstance(loop, cst.For)
        and isinstance(loop.target, cst.Name)
        and loop.target.value == node.value
        and EACH.fullmatch(porting.module.code(loop.iter)) is not None
        for loop in porting.module.ancestors(node)
    )


def _is_read(parent: cst.CSTNode, node: cst.Name) -> bool:
    """Whether a name is looked up, not the attribute or keyword of something."""
    attribute = isinstance(parent, cst.Attribute) and parent.attr is node
    return not attribute and not (isinstance(parent, cst.Arg) and parent.keyword is node)

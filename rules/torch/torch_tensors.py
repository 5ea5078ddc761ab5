"""return_tensors="pt", set_format("torch") in a port that needs no torch: NumPy's arrays.

What it does: where nothing of the port uses torch any more, a tokenizer that is asked for torch's tensors gives
NumPy's arrays (`return_tensors="np"`), and so do rows (`set_format("numpy")`); `.clone()` of them becomes `.copy()`,
`.size(0)` becomes `.shape[0]`, and what arrays can't do is named. A port that goes on using torch keeps its tensors.
Why: a TPU machine need not have torch, and transformers ends where it is asked for tensors that it can't make.
Example: `rows.map(lambda row: tokenizer(row["text"], return_tensors="pt"))`
Use instead: `rows.map(lambda row: tokenizer(row["text"], return_tensors="np"))`
Safety: exact, the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import calls_of, flatten, function_around, plain_version, settle_tokens, version_key

ID = "TP528"
REASON = "NumPy's arrays: the same numbers without torch"
KEYWORD = "return_tensors"
FORMATS = re.compile(r"\b(set|with)_format\(")
NEEDING = frozenset("torch torchvision torchaudio peft accelerate trl unsloth bitsandbytes deepspeed".split())
MODELS = re.compile(
    r"transformers\.(?:\w+\.)*(?:(?!DataCollator)(?:AutoModel\w*|[A-Z]\w+For[A-Z]\w+|[A-Z]\w+Model|Trainer)"
    r"(?:\.from_pretrained)?|modeling_\w+\.\w+)"
)


@step(Phase.NAME, fills=("tensors",))
def answer_tensors(porting: Porting) -> None:
    """What asks for torch's tensors gives NumPy's arrays, in a port that leaves no torch; see also `generating`."""
    text = porting.module.text
    if not (KEYWORD in text or FORMATS.search(text)) or _keeps_torch(porting):
        return
    release = version_key(plain_version(porting.versions.get("transformers", "0")))
    for call in list(porting.module.calls):
        if _asks(porting, call):
            settle_tokens(porting, call, ID, ids=release < (5,))
            for where in _handed_on(porting, call):
                settle_tokens(porting, where, ID, ids=False)
    for default in _defaults(porting):
        if not porting.covered(porting.module.span(default)[0]):
            said = porting.module.code(default)
            porting.edit(*porting.module.span(default), said.replace("pt", "np"), ID, REASON)

    for call, value in _formats(porting):
        start, end = porting.module.span(value)
        said = re.sub(r"torch|pt", "numpy", porting.module.code(value))
        if not porting.covered(start):
            porting.edit(start, end, said, ID, REASON)
        else:
            first, code = porting.module.span(call)[0], porting.module.code(call)
            porting.respell(code, code[: start - first] + said + code[end - first :])


def _formats(porting: Porting) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """`rows.set_format("torch")` and `rows.with_format(type="torch")`, with what they are given."""
    for call in porting.module.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("set_format", "with_format"):
            for place, argument in enumerate(call.args):
                named = argument.keyword.value == "type" if argument.keyword is not None else place == 0
                value = argument.value
                if named and isinstance(value, cst.SimpleString) and value.evaluated_value in ("torch", "pt"):
                    yield call, value


def _asks(porting: Porting, call: cst.Call) -> bool:
    named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == KEYWORD]
    return any(_is_pt(value) and not porting.covered(porting.module.span(value)[0]) for value in named)


def _is_pt(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.SimpleString) and node.evaluated_value == "pt"


def _handed_on(porting: Porting, call: cst.Call) -> Iterator[cst.Call]:
    """The calls of a function that returns what the call gives, by itself or by a name."""
    module = porting.module
    function = function_around(module, call)
    parent = module.parents[call]
    names = {module.code(target.target) for target in parent.targets} if isinstance(parent, cst.Assign) else set()
    for node in module.parents if function is not None else ():
        if isinstance(node, cst.Return) and function_around(module, node) is function and node.value is not None:
            if node.value is call or module.code(node.value) in names:
                yield from calls_of(module, function)  # type: ignore[arg-type]
                return


def _defaults(porting: Porting) -> Iterator[cst.BaseExpression]:
    """`return_tensors` that a collator of the script's own is made with, and of keywords that stand in a dictionary."""
    for node in porting.module.parents:
        match node:
            case cst.Param(name=cst.Name(value="return_tensors"), default=value) if _is_pt(value):
                yield value  # type: ignore[misc]
            case cst.AnnAssign(target=cst.Name(value="return_tensors"), value=value) if _is_pt(value):
                yield value  # type: ignore[misc]
            case cst.DictElement(key=cst.SimpleString() as key, value=value) if key.evaluated_value == KEYWORD:
                if _is_pt(value):
                    yield value


def _keeps_torch(porting: Porting) -> bool:
    """Whether something stays in the port that uses torch, or a library that needs it."""
    module = porting.module
    if any(name.startswith("torch.") for name in porting.written_names()):
        return True
    for scope in module.scopes.values():
        for name, bindings in scope.bindings.items():
            imported = [binding.qualified for binding in bindings if binding.kind == "import"]
            # What is moved comes from the runtime now.
            imported = [each for each in imported if flatten(each, module.flat) not in porting.moved]
            needs = any(each.partition(".")[0] in NEEDING or MODELS.fullmatch(each) for each in imported)
            if needs and not all(porting.covered(module.span(use)[0]) for use in module.references(name, scope)):
                return True
    return any(
        MODELS.fullmatch(module.qualified(call.func) or "") and not porting.covered(module.span(call)[0])
        for call in module.calls
    )

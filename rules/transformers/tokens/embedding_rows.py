"""What scripts do to the rows of a model's embedding beside `resize_token_embeddings`.

They ask how many there are, before they resize; and those made after Alpaca's give the tokens that they add the mean
of all others (`smart_tokenizer_and_embedding_resize`).
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Use, function_around, role_uses

PART_OF = "TP312"
REASON = "the rows of Tunix's embedding, which stay as many as they are"
NUMBER = re.compile(r"\.(?:num_embeddings|weight(?:\.data)?\.(?:shape\[0\]|size\(0\)|size\(dim=0\)))$")
WEIGHT = re.compile(r"(\w+) = [\w.]+\.get_(?:input|output)_embeddings\(\)\.weight(?:\.data)?$")


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def answer_rows(porting: Porting) -> None:
    """Replace questions for the embedding's rows, and the lines that fill new ones with the mean of the others."""
    for use in list(role_uses(porting, "model")):
        if use.match == "@model.get_input_embeddings()" and not porting.covered(porting.module.span(use.name)[0]):
            if not _replace_number(porting, use):
                _replace_means(porting, use)


def _replace_number(porting: Porting, use: Use) -> bool:
    """`model.get_input_embeddings().weight.shape[0]` → `rt.check_vocabulary(model)`, which gives the rows."""
    module, outer = porting.module, use.outer
    call = module.code(outer)
    while isinstance(parent := module.parents[outer], cst.Attribute | cst.Subscript | cst.Call):
        if getattr(parent, "value", getattr(parent, "func", None)) is not outer:
            break
        outer = parent
        if NUMBER.fullmatch(module.code(outer).removeprefix(call)):
            new = f"{porting.rt('check_vocabulary')}({module.code(use.name)})"
            porting.edit(*module.span(outer), new, PART_OF, REASON)
            return True
    return False


def _replace_means(porting: Porting, use: Use) -> None:
    """The six lines of `smart_tokenizer_and_embedding_resize` → `rt.average_new_rows(model, len(tokenizer), new)`."""
    module = porting.module
    line = module.statement(use.name)
    block = module.parents.get(line)
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(block, cst.IndentedBlock | cst.Module):
        return
    found: list[cst.SimpleStatementLine] = []
    counted: set[str] = set()
    tables = {name[1] for item in block.body if (name := WEIGHT.match(_shape(porting, item)))}
    means: set[str] = set()
    for item in (item for item in block.body if isinstance(item, cst.SimpleStatementLine)):
        code = _shape(porting, item)
        mean = re.fullmatch(r"(\w+) = (\w+)\[:-(\w+)\]\.mean\(dim=0, ?keepdim=True\)", code)
        put = re.fullmatch(r"(\w+)\[-(\w+):\] = (\w+)", code)
        if mean is not None and mean[2] in tables:
            means.add(mean[1])
            counted.add(mean[3])
        elif put is not None and put[1] in tables and put[3] in means:
            counted.add(put[2])
        elif not WEIGHT.match(code):
            continue
        found.append(item)
    if len(found) != 3 * len(tables) or len(means) != len(tables) or len(counted) != 1 or found[0] is not line:
        return
    model = module.code(use.name)
    call = f"{porting.rt('average_new_rows')}({model}, {_size(porting, use)}, {counted.pop()})"
    porting.edit(*module.span(line), call, PART_OF, "the same rows get the same mean")
    for item in found[1:]:
        porting.remove_statement(item.body[0], PART_OF, "the same rows get the same mean")


def _shape(porting: Porting, item: cst.CSTNode) -> str:
    """A statement's code on one line, without its comment."""
    code = porting.module.code(item.body[0]) if isinstance(item, cst.SimpleStatementLine) else ""
    return re.sub(r",?\s+(?=\))|(?<=\()\s+", "", re.sub(r"\s+", " ", code)).strip()


def _size(porting: Porting, use: Use) -> str:
    """How many rows the function asked for before: the argument of its `resize_token_embeddings`."""
    module = porting.module
    function = function_around(module, use.name)
    for other in role_uses(porting, "model"):
        if other.match == "@model.resize_token_embeddings()" and function_around(module, other.name) is function:
            if isinstance(other.outer, cst.Call) and other.outer.args:
                return module.code(other.outer.args[0].value)
    return f"len({porting.names.tokenizer or 'tokenizer'})"

"""Calls that give back (model, tokenizer): in the port each is made in a statement of its own."""

from __future__ import annotations

from ...engine.script.porting import Porting
from ...engine.script.sites import Site, pair_names
from ...engine.tokens.tokenizers import tokenizer_load
from ...source.project.usual.model_names import usual_values_in
from ...text.expressions import quoted
from ...text.layout import Arg, Call, render
from ...text.marks import MARKS


def write_pair(porting: Porting, site: Site, call: Call) -> None:
    """`model, tokenizer = FastLanguageModel.from_pretrained(...)` → `rt.load_model` and `AutoTokenizer`."""
    names = pair_names(porting.module, site.node)
    if names is None:
        name = site.qualified.partition(".")[2]
        message = f"{name} gives back (model, tokenizer), which this statement doesn't take apart."
        fix = f"Write `model, tokenizer = {name}(...)`, and port again."
        porting.find(site.rule, "error", message, fix, site.line, site.column)
        return
    model, tokenizer = names
    lines = [f"{model} = {render(call, site.indent, porting.module.indent, len(model) + 3)}"]
    if tokenizer != "_":
        identifier = call.arguments[0].value
        assert isinstance(identifier, str)
        loaded = _padded(porting, tokenizer_load(porting, MARKS.sub("", identifier)), model, identifier)
        lines.append(f"{tokenizer} = {render(loaded, site.indent, porting.module.indent, len(tokenizer) + 3)}")
        if side := porting.code.get("padding_side"):
            lines.append(f"{tokenizer}.padding_side = {quoted(side)}")
    porting.replace_statement(site, f"\n{site.indent}".join(lines), "the same weights in Tunix's model")


def _padded(porting: Porting, load: str, model: str, identifier: str) -> str | Call:
    """The loaded tokenizer, with a padding token as Unsloth gives it one; its own copies of models have one."""
    names = usual_values_in(porting.module, MARKS.sub("", identifier))
    if not porting.loaded_by or (names and all(name.startswith("unsloth/") for name, _ in names)):
        return load
    return Call(porting.rt("pad_as_unsloth"), [Arg(load), Arg(model), Arg(quoted(porting.loaded_by))])

"""Calls that give back (model, tokenizer): in the port each is made in a statement of its own."""

from __future__ import annotations

from ...engine.script.porting import Porting
from ...engine.script.sites import Site, pair_names
from ...engine.tokens.tokenizers import tokenizer_load
from ...text.layout import Call, render
from ...text.marks import MARKS


def write_fast_model(porting: Porting, site: Site, call: Call) -> None:
    """`model, tokenizer = FastLanguageModel.from_pretrained(...)` → `rt.load_model` and `AutoTokenizer`."""
    names = pair_names(porting.module, site.node)
    if names is None:
        message = "from_pretrained of Unsloth gives back (model, tokenizer), which this statement doesn't take apart."
        fix = "Write `model, tokenizer = FastLanguageModel.from_pretrained(...)`, and port again."
        porting.find(site.rule, "error", message, fix, site.line, site.column)
        return
    model, tokenizer = names
    lines = [f"{model} = {render(call, site.indent, porting.module.indent, len(model) + 3)}"]
    if tokenizer != "_":
        identifier = call.arguments[0].value
        assert isinstance(identifier, str)
        lines.append(f"{tokenizer} = {tokenizer_load(porting, MARKS.sub('', identifier))}")
    porting.replace_statement(site, f"\n{site.indent}".join(lines), "the same weights in Tunix's model")

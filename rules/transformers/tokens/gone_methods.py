"""What tokenizers of transformers 5 have no more: `encode_plus`, `batch_encode_plus`, `additional_special_tokens`.

What it does: `tokenizer.encode_plus(...)` and `tokenizer.batch_encode_plus(...)` become the tokenizer's own call, which
took the same arguments in transformers 4; `pad_to_max_length=True` becomes `padding="max_length"`,
`tokenizer.additional_special_tokens` is `tokenizer.extra_special_tokens`. What has no successor is named.
Why: a port runs with transformers 5, where these end with an AttributeError, in a `map` over the rows as in front of
`generate`.
Example: `tokens = tokenizer.encode_plus(text, truncation=True, max_length=512)`
Use instead: `tokens = tokenizer(text, truncation=True, max_length=512)`
Safety: exact.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import is_tokenizer

ID = "TP366"
CALLS = frozenset({"encode_plus", "batch_encode_plus"})
TEXTS, TEXT = "batch_text_or_text_pairs", "text"
PADS = "pad_to_max_length"
GONE = frozenset(
    "as_target_tokenizer build_inputs_with_special_tokens create_token_type_ids_from_sequences prepare_for_model "
    "prepare_seq2seq_batch truncate_sequences".split()
)
ADDITIONAL, EXTRA = "additional_special_tokens", "extra_special_tokens"
EXTENDED = ("all_special_tokens_extended", "special_tokens_map_extended")
ASK = ("getattr", "hasattr", "setattr")


@step(Phase.NAME, reads=("columns",), fills=("methods of tokenizers",))
def call_tokenizers(porting: Porting) -> None:
    """Calls that the port keeps are of today's tokenizers."""
    module = porting.module
    for call in module.calls:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in CALLS | GONE:
            continue
        if porting.covered(module.span(call)[0]) or not is_tokenizer(module, func.value):
            continue
        name = func.attr.value
        if name in GONE:
            _say_gone(porting, func, "Call the tokenizer itself.")
            continue
        porting.edit(module.span(func.value)[1], module.span(func)[1], "", ID, f"{name} is the tokenizer's own call")
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value == TEXTS:
                porting.edit(*module.span(arg.keyword), TEXT, ID, "the call's name of it")
            elif arg.keyword is not None and arg.keyword.value == PADS and module.code(arg.value) == "True":
                porting.edit(*module.span(arg.keyword), "padding", ID, "today's name of it")
                porting.edit(*module.span(arg.value), '"max_length"', ID, "today's name of it")


@step(Phase.NAME, reads=("columns",), fills=("special tokens",))
def name_special_tokens(porting: Porting) -> None:
    """The further special tokens of a tokenizer have today's name, read, set or asked for by `getattr`."""
    module = porting.module
    if not any(name in module.text for name in (ADDITIONAL, *EXTENDED)):
        return
    for node in list(module.parents):
        name, tokenizer, start, end = "", None, 0, 0
        if isinstance(node, cst.Attribute):
            name, tokenizer, (start, end) = node.attr.value, node.value, module.span(node.attr)
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in ASK:
            asked = node.args[1].value if len(node.args) > 1 else None
            if isinstance(asked, cst.SimpleString) and isinstance(asked.evaluated_value, str):
                (start, end), tokenizer = module.span(asked), node.args[0].value
                name, start, end = asked.evaluated_value, start + 1, end - 1
        if tokenizer is None or name not in (ADDITIONAL, f"{ADDITIONAL}_ids", *EXTENDED):
            continue
        if porting.covered(start) or not is_tokenizer(module, tokenizer):
            continue
        if name not in EXTENDED:
            porting.edit(start, end, name.replace(ADDITIONAL, EXTRA), ID, "today's name of it")
        elif isinstance(node, cst.Attribute):
            _say_gone(porting, node, f"Take tokenizer.{name.removesuffix('_extended')}, which holds texts.")


def _say_gone(porting: Porting, node: cst.Attribute, fix: str) -> None:
    line, column = porting.module.location(node)
    message = f"transformers 5 has no {porting.module.code(node)}: a port ends here with an AttributeError."
    porting.find(ID, "error", message, fix, line, column)

"""What tokenizers of transformers 5 have no more: `encode_plus`, `batch_encode_plus`, `additional_special_tokens`.

What it does: `tokenizer.encode_plus(...)` and `tokenizer.batch_encode_plus(...)` become the tokenizer's own call, which
took the same arguments in transformers 4; `pad_to_max_length=True` becomes `padding="max_length"`. What has no
successor is named. So do attributes: `tokenizer.additional_special_tokens` and its ids are `extra_special_tokens` and
its ids, read or set, also by `getattr`; `rt.special_tokens_map(tokenizer)` has them, as `tokenizer.special_tokens_map`
of transformers 4. `replace_additional_special_tokens=` has today's name, too.
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
RENAMED = {
    "additional_special_tokens": "extra_special_tokens",
    "additional_special_tokens_ids": "extra_special_tokens_ids",
}
READ = "Read `special_tokens_map` or `all_special_tokens`."
WITHOUT_SUCCESSOR = {
    "special_tokens_map_extended": READ,
    "all_special_tokens_extended": READ,
    "sanitize_special_tokens": "Give its special tokens to `add_special_tokens`, where they are not in the vocabulary.",
}
ASKERS = frozenset({"getattr", "hasattr", "setattr"})
REPLACES = ("replace_additional_special_tokens", "replace_extra_special_tokens")
GONE = frozenset(
    "as_target_tokenizer build_inputs_with_special_tokens create_token_type_ids_from_sequences prepare_for_model "
    "prepare_seq2seq_batch truncate_sequences".split()
)


@step(Phase.NAME, reads=("columns",), fills=("methods of tokenizers",), anywhere=True)
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
            message = f"transformers 5 has no {module.code(func)}: a port ends here with an AttributeError."
            line, column = module.location(call)
            porting.find(ID, "error", message, "Call the tokenizer itself.", line, column)
            continue
        porting.edit(module.span(func.value)[1], module.span(func)[1], "", ID, f"{name} is the tokenizer's own call")
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value == TEXTS:
                porting.edit(*module.span(arg.keyword), TEXT, ID, "the call's name of it")
            elif arg.keyword is not None and arg.keyword.value == PADS and module.code(arg.value) == "True":
                porting.edit(*module.span(arg.keyword), "padding", ID, "today's name of it")
                porting.edit(*module.span(arg.value), '"max_length"', ID, "today's name of it")


@step(Phase.NAME, reads=("columns",), fills=("attributes of tokenizers",), anywhere=True)
def name_attributes(porting: Porting) -> None:
    """Attributes of tokenizers that the port reads or sets have today's names."""
    module = porting.module
    for name in (*RENAMED, *WITHOUT_SUCCESSOR):
        for node in module.attributes_named(name):
            if porting.covered(module.span(node)[0]) or not is_tokenizer(module, node.value):
                continue
            if name in RENAMED:
                porting.edit(*module.span(node.attr), RENAMED[name], ID, "today's name of it")
                continue
            message = f"transformers 5 has no {module.code(node)}: a port ends here with an AttributeError."
            line, column = module.location(node)
            porting.find(ID, "error", message, WITHOUT_SUCCESSOR[name], line, column)
    for call in module.calls:
        _rename_in_call(porting, call)


def _rename_in_call(porting: Porting, call: cst.Call) -> None:
    """`getattr(tokenizer, "additional_special_tokens", [])`, which would be without such, and a keyword."""
    module = porting.module
    if porting.covered(module.span(call)[0]):
        return
    match call:
        case cst.Call(func=cst.Name(asker), args=[held, asked, *_]) if asker in ASKERS:
            name = asked.value.evaluated_value if isinstance(asked.value, cst.SimpleString) else None
            if isinstance(name, str) and name in RENAMED and is_tokenizer(module, held.value):
                porting.edit(*module.span(asked.value), f'"{RENAMED[name]}"', ID, "today's name of it")
        case cst.Call(func=cst.Attribute(value=held, attr=cst.Name("add_special_tokens"))):
            words = [arg.keyword for arg in call.args if arg.keyword is not None and arg.keyword.value == REPLACES[0]]
            for word in words if is_tokenizer(module, held) else ():
                porting.edit(*module.span(word), REPLACES[1], ID, "today's name of it")

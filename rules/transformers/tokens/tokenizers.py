"""Tokenizers of a script for transformers before 5: the ids that transformers 4 gave the same text.

What it does: the load becomes `rt.as_transformers_4(AutoTokenizer.from_pretrained(...))`, with `add_bos_token=`,
`add_eos_token=` and `use_fast=` where the script gives them; `tokenizer.add_eos_token = True` becomes
`rt.bos_eos(tokenizer, add_eos_token=True)`. Left as they are: published tokenizers that both releases load alike
(Qwen's, Gemma's, Llama 3's).
Why: transformers 5, which a port has, builds tokenizers of Llama's class anew and leaves out how their `tokenizer.json`
splits a text: behind a special token within a text Llama 2, TinyLlama and the like get another token, of
DeepSeek-R1-Distill-Llama all spaces are lost. So it does with Llamas that name GPT-2's class: SmolLM 1 and 2 get other
tokens for line breaks and spaces in front of a number. Mistral's pad on the other side. Told of the end token alone it
takes the start token away, and it listens for tokenizers that didn't (Llama 3's, Qwen's).
Llama's slow class (`LlamaTokenizer`, `use_fast=False`) was SentencePiece itself, which does to a text what its
`tokenizer.model` says: OpenLLaMA's makes one space of several.
transformers 5.0 to 5.2 read the files of these classes as they stand, too (`rt.as_transformers_5_0`): from 5.3 on a
text that begins with a space has one token less with Llama's.
Before 5.7 `decode` took the spaces in front of punctuation out of a text where the checkpoint (Llama 3's) or the call
asks for it (`clean_up_tokenization_spaces`); since then it doesn't for tokenizers like these. A script that decodes has
it done (`rt.as_transformers_5_3` for 5.3 to 5.6).
Example: `tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1", add_eos_token=True)`
Use instead: `tokenizer = rt.as_transformers_4(AutoTokenizer.from_pretrained("..."), add_eos_token=True)`
Safety: exact beside transformers 4.41 to 4.57. Before 4.41 `add_prefix_space` in a checkpoint's settings (Mistral 7B
v0.3), or `legacy: false` of one without `tokenizer.json`, put a space behind each special token, too.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, is_before, step
from porter.packs.script import TOKENIZER_LOADS, is_tokenizer, tokenizer_wrapper

ID = "TP005"
NAMES = ("add_bos_token", "add_eos_token")
MOVED = (*NAMES, "use_fast")  # transformers 5 doesn't listen to the last one
SLOW = ("LlamaTokenizer", "CodeLlamaTokenizer")  # by these names transformers 4 had the slow ones
REASON = "ids of the same text as transformers 4 gives them"
REASON_5 = "ids and texts as the source's transformers gives them"
END_REASON = "start and end tokens as transformers 4 put them"


@step(Phase.ANSWER, fills=("claimed names",))
def keep_tokenizers(porting: Porting) -> None:
    """Loads become `rt.as_transformers_4(...from_pretrained(...))`, assigned end tokens `rt.bos_eos(...)`."""
    module = porting.module
    if not is_before(porting, "transformers", "5"):
        _wrap_loads(porting)
        return
    for call in module.calls:
        found = TOKENIZER_LOADS.fullmatch(module.qualified(call.func) or "")
        if found is not None and not porting.covered(module.span(call)[0]):
            _load(porting, call, found[1])
    if not any(name in module.text for name in NAMES):
        return
    for node in module.parents:
        if isinstance(node, cst.Assign) and not porting.covered(module.span(node)[0]):
            _assign(porting, node)


def _wrap_loads(porting: Porting) -> None:
    """AutoTokenizer's loads become `rt.as_transformers_5_0(...from_pretrained(...))`, or `as_transformers_5_3`."""
    module = porting.module
    for call in module.calls:
        found = TOKENIZER_LOADS.fullmatch(module.qualified(call.func) or "")
        if found is None or found[1] != "AutoTokenizer" or porting.covered(module.span(call)[0]):
            continue
        model = next((arg for arg in call.args if arg.keyword is None and not arg.star), None)
        wrapper = tokenizer_wrapper(porting, module.code(model.value) if model is not None else "")
        if not wrapper:
            continue
        start, end = module.span(call)
        porting.edit(start, start, f"{porting.rt(wrapper)}(", ID, REASON_5)
        porting.edit(end, end, ")", ID, REASON_5)


def _load(porting: Porting, call: cst.Call, loaded: str) -> None:
    module = porting.module
    said = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in MOVED]
    if said == list(call.args):
        return
    names = [arg.keyword.value for arg in said if arg.keyword is not None]
    model = next((arg for arg in call.args if arg.keyword is None and not arg.star), None)
    slow = loaded in SLOW and "use_fast" not in names
    if (
        not set(names) & set(NAMES)
        and not slow
        and model is not None
        and not tokenizer_wrapper(porting, module.code(model.value))
    ):
        return
    words = []
    for arg in said:
        assert arg.keyword is not None
        words.append(f", {arg.keyword.value}={module.code(arg.value)}")
        at = list(call.args).index(arg)
        if at + 1 < len(call.args):
            start, end = module.span(arg)[0], module.span(call.args[at + 1])[0]
        else:
            before = next(other for other in reversed(call.args[:at]) if other not in said)
            start, end = module.span(before)[1], module.span(arg)[1]
        porting.edit(start, end, "", ID, REASON)
    if slow:
        words.append(", use_fast=False")
    words += [
        f", legacy={module.code(arg.value)}"
        for arg in call.args
        if arg.keyword is not None and arg.keyword.value == "legacy"
    ]
    start, end = module.span(call)
    porting.edit(start, start, f"{porting.rt('as_transformers_4')}(", ID, REASON)
    porting.edit(end, end, f"{''.join(words)})", ID, REASON)


def _assign(porting: Porting, node: cst.Assign) -> None:
    module = porting.module
    target = node.targets[0].target
    if len(node.targets) != 1 or not isinstance(target, cst.Attribute) or target.attr.value not in NAMES:
        return
    if not is_tokenizer(module, target.value):
        return  # `self.add_eos_token = add_eos_token` of a dataset's class
    called = f"{porting.rt('bos_eos')}({module.code(target.value)}, {target.attr.value}={module.code(node.value)})"
    porting.edit(*module.span(node), called, ID, END_REASON)

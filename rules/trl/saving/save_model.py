"""trainer.save_model(dir) → `rt.save_adapter(model, dir)` or `rt.save_model(model, dir)`.

What it does: writes the trained weights where the source wrote them, as PEFT or transformers write them.
Why: Tunix saves Orbax checkpoints; people use adapters and safetensors.
Example: `trainer.save_model("out/adapter")`
Use instead: `rt.save_adapter(model, "out/adapter")`
Safety: exact. The adapter is `adapter_model.safetensors` with `adapter_config.json`, which PEFT loads. A model that was
given to a trainer with `peft_config=` and is saved by its own name is the whole base there, under PEFT's names for its
layers; the port writes the adapter, and a finding says so.
"""

import re
from dataclasses import replace

import libcst as cst

from porter.packs.api import is_before, saved_tokenizer, say_keywords
from porter.packs.script import is_tokenizer

from ._named_base import is_named_base, say_named_base
from .uploading import upload_behind

STANDARD = "as PEFT and transformers save by default"
SETTLED = {
    "_internal_call": ("dropped", "", "it is the Trainer's own"),
    "safe_serialization": ("changed", "", "safetensors whatever it says, which PEFT and transformers load"),
    "max_shard_size": ("dropped", "", "files of at most 5 GB"),
    "save_function": ("dropped", "", "one host writes the files"),
    "is_main_process": ("dropped", "", "one host writes the files"),
    "state_dict": ("dropped", "", "the trained weights are read from the mesh"),
    "save_embedding_layers": ("dropped", "", STANDARD),
    "save_peft_format": ("dropped", "", STANDARD),
    "save_original_format": ("dropped", "", STANDARD),
    "selected_adapters": ("dropped", "", "the model has one adapter"),
    "push_to_hub": ("manual", "", "rt.save_model and rt.save_adapter upload nothing: rt.push_to_hub does"),
    "repo_id": ("manual", "", "rt.save_model and rt.save_adapter upload nothing: rt.push_to_hub does"),
    "variant": ("manual", "", "the files have transformers' plain names"),
}

PRINTS = re.compile(r"print|(?:logger|logging|log)\.\w+")

ALIGNS = "4.56"
SETS_END = re.compile(r"tokenizer\w*\.eos_token(?:_id)?\s*=(?!=)")
SETS_OWN_END = re.compile(r"config\.eos_token_id\s*=(?!=)")

ID = "TP112"
MATCHES = (
    "@trainer.save_model()",
    "@trainer.model.save_pretrained()",
    "@model.save_pretrained()",
)
POSITIONAL = {
    "@trainer.save_model()": ("output_dir", "_internal_call"),
    "@trainer.model.save_pretrained()": ("save_directory",),
    "@model.save_pretrained()": ("save_directory",),
}
# What PEFT's and transformers' own save_pretrained name their further positional arguments.
OF_PEFT = ("safe_serialization", "selected_adapters", "save_embedding_layers", "is_main_process")
OF_TRANSFORMERS = ("is_main_process", "state_dict")  # the next is another from 5.0 on


def apply(site, porting):
    site = _named(site, porting)
    target = site.argument("output_dir", "save_directory")
    path = target.text if target is not None else porting.output_dir()
    is_base = porting.saves_adapter and _is_before_adapters(porting, site)
    lora = porting.saves_adapter and not is_base
    function = porting.rt("save_adapter" if lora else "save_model")
    porting.saved.add((porting.names.model, path))
    arguments = [porting.names.model, path]
    upload = upload_behind(porting, site) if site.qualified == "@trainer.save_model()" else ""
    if site.qualified == "@trainer.save_model()" and (tokenizer := saved_tokenizer(porting, site.node)):
        if upload or not _is_saved_below(porting.module, site.node, tokenizer, path):
            arguments.append(f"tokenizer={tokenizer}")
    new = f"{function}({', '.join(arguments)})"
    reason = "the adapter as PEFT writes it" if lora else "the weights as transformers writes them"
    porting.replace(site, new + upload, reason)
    fates = {**_of_uploads(site), **SETTLED, **_of_tokenizers(site, porting)}
    say_keywords(porting, site, fates, "output_dir", "save_directory")
    if is_base:
        _say_quantised_base(site, porting)
    elif not lora:
        _say_end_token(site, porting)
    if site.qualified == "@model.save_pretrained()" and is_named_base(porting, site):
        say_named_base(porting, site, "save_pretrained")


def _say_quantised_base(site, porting):
    """An error where the base that is saved in front of its adapters may be held in 4 or 8 bits."""
    held = porting.value("model.quantization")
    if held is not None and not held.is_literal(None):
        message = "A quantised base is saved here, in front of its adapters: rt.save_model writes none."
        fix = "Save it where it isn't quantised, or take the line out: what is trained are the adapters."
        porting.find(ID, "error", message, fix, site.line, site.column)


def _say_end_token(site, porting):
    """A warning where the script gives its tokenizer another end token: from transformers 4.56 on the Trainer writes it
    into the model's own settings, which are saved with the model."""
    text = porting.module.text
    if is_before(porting, "transformers", ALIGNS) or SETS_END.search(text) is None or SETS_OWN_END.search(text):
        return
    message = "The Trainer makes the tokenizer's end token the model's, and saves it in config.json and"
    message += " generation_config.json; the port's have the checkpoint's."
    settings = f"rt.generation_config({porting.names.model}).eos_token_id = tokenizer.eos_token_id"
    porting.find(ID, "warning", message, f"Write {settings} in front of the save.", site.line, site.column)


def _is_before_adapters(porting, site):
    """Whether a model is saved by its name above all that puts adapters in, or trains it, in the same function."""
    takers = porting.of_role("inject") or [porting.trainer]
    known = site.qualified == "@model.save_pretrained()" and all(taker is not None for taker in takers)
    return known and all(taker.scope is site.scope and taker.start > site.end for taker in takers)


def _is_saved_below(module, save, tokenizer, path):
    """Whether the script saves the tokenizer there itself, on a line below with no more than prints between."""
    line = module.parents[module.parents[save]]
    block = module.parents.get(line)
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(block, cst.IndentedBlock | cst.Module):
        return False
    for below in block.body[block.body.index(line) + 1 :]:
        only = below.body[0] if isinstance(below, cst.SimpleStatementLine) and len(below.body) == 1 else None
        call = only.value if isinstance(only, cst.Expr) else None
        if not isinstance(call, cst.Call):
            return False
        if module.code(call) == f"{tokenizer}.save_pretrained({path})":
            return True
        if PRINTS.fullmatch(module.code(call.func)) is None:
            return False
    return False


def _named(site, porting):
    """The call with the names of its further positional arguments, which hang on the model's class."""
    names = OF_PEFT if porting.saves_adapter else OF_TRANSFORMERS
    by_place = {f"argument {index}": name for index, name in enumerate(names, start=2)}
    named = (replace(argument, name=by_place.get(argument.name, argument.name)) for argument in site.arguments)
    return replace(site, arguments=tuple(named))


def _of_uploads(site):
    """`model.save_pretrained(folder, token=TOKEN, save_adapter=True)`: what PEFT and transformers don't know by name
    they keep for an upload, which `push_to_hub=True` alone asks for."""
    if site.qualified == "@trainer.save_model()":
        return {}
    named = [argument.name for argument in site.arguments if argument.name.isidentifier()]
    return dict.fromkeys(named, ("dropped", "", "save_pretrained reads past it where it uploads nothing"))


def _of_tokenizers(site, porting):
    """`model.save_pretrained(folder, tokenizer)`: what becomes of the tokenizer, which no such method saves."""
    for argument in site.arguments:
        if argument.name in ("safe_serialization", "is_main_process") and is_tokenizer(porting.module, argument.node):
            reason = f"the second argument is {argument.name}, and true: the tokenizer isn't saved by this call"
            return {argument.name: ("dropped", "", reason)}
    return {}

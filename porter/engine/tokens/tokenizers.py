"""What is a tokenizer, and which of them transformers 5 loads as the release before did."""

from __future__ import annotations

import re

import libcst as cst

from ...runtime.facts.field_tables import version_key
from ...source.module import Module
from ...source.project.usual.model_names import usual_values_in
from ..script.fill_from_tables import plain_version
from ..script.flow import origins
from ..script.porting import Porting
from ..script.training import in_reach

RULE = "TP005"
LOADS = re.compile(r"transformers\.(?:\w+\.)*(\w*Tokenizer(?:Fast)?)\.from_pretrained")
# Published tokenizers that both releases load alike.
ALIKE = re.compile(
    r"(?:^|[/_-])(?:qwen|gemma|(?:meta-)?llama-?3(?!\d*b)|smollm-?3(?!\d*m)|phi|gpt2|pythia)", re.IGNORECASE
)
# Phi-4 as a Llama names GPT-2's class, as SmolLM 1 and 2 do: version 5 splits texts as GPT-2 does then.
OTHERS = re.compile(r"deepseek|distill|mi[sx]tral|llama-?2|phi-4", re.IGNORECASE)
BUILDS_ANEW = (5, 3)  # transformers' first release that loads tokenizers as the port's does
# The first that takes no spaces out of a decoded text of these, whatever the checkpoint or the call says.
KEEPS_SPACES = (5, 7)
CLEANED = re.compile(r"llama-?3(?!\d*b)", re.IGNORECASE)  # checkpoints that ask for it
ASKS_TO_CLEAN = re.compile(r"\bclean_up_tokenization_spaces[\"']?\s*[=:]\s*True\b")
DECODES = re.compile(r"decode\(|Streamer\(|\b(?:GRPO|RLOO)Trainer\b")


def tokenizer_load(porting: Porting, model: str) -> str:
    """The expression that loads the tokenizer of `model`, an expression too, where the port adds a line that does."""
    porting.imports.add("from transformers import AutoTokenizer")
    load = f"AutoTokenizer.from_pretrained({model})"
    wrapper = tokenizer_wrapper(porting, model)
    return f"{porting.rt(wrapper)}({load})" if wrapper else load


def tokenizer_wrapper(porting: Porting, model: str) -> str:
    """The runtime's function that makes the tokenizer of `model`, as the port's transformers loads it, that of the
    source's release; empty where it is. An empty `model` isn't known.
    """
    release = version_key(plain_version(porting.versions.get("transformers", "")) or "99")
    if release >= KEEPS_SPACES or not porting.options.active(RULE):
        return ""
    held = [name for name, _ in usual_values_in(porting.module, model)] if model else []
    cleans = _cleans(porting.module, held)
    if release >= BUILDS_ANEW:
        return "as_transformers_5_3" if cleans else ""
    if held and all(ALIKE.search(name) and not OTHERS.search(name) for name in held) and not cleans:
        return ""
    return "as_transformers_4" if release < (5,) else "as_transformers_5_0"


def _cleans(module: Module, held: list[str]) -> bool:
    """Whether spaces in front of punctuation leave texts that the script, or its trainer, decodes."""
    if DECODES.search(module.text) is None:
        return False
    return ASKS_TO_CLEAN.search(module.text) is not None or not held or any(map(CLEANED.search, held))


def is_tokenizer(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an object is loaded as a tokenizer, or is called one where that can't be seen."""
    made = [module.qualified(each.func) or "" for each in origins(module, node) if isinstance(each, cst.Call)]
    named = re.search(r"tok(?:enizer|enizers)?$", module.code(node), re.IGNORECASE) is not None
    return any(LOADS.fullmatch(name) for name in made) or named


def saved_tokenizer(porting: Porting, node: cst.CSTNode) -> str:
    """The tokenizer that the trainer saves beside its model, as code for the place of `node`; empty for none.

    It is the trainer's own; without one, from transformers 4.50 on, what its collator was given.
    """
    if porting.names.tokenizer or porting.trainer is None:
        return porting.names.tokenizer
    module, argument = porting.module, porting.trainer.argument("data_collator")
    if argument is None or version_key(plain_version(porting.versions.get("transformers", "0"))) < (4, 50):
        return ""
    made = next((made for made in origins(module, argument.node) if _holds_tokenizer(module, made)), None)
    if not isinstance(made, cst.Call):
        return ""
    named = [arg.value for arg in made.args if arg.keyword is not None and arg.keyword.value == "tokenizer"]
    given = [*named, *(arg.value for arg in made.args if arg.keyword is None and not arg.star)][:1]
    text = module.code(given[0]) if given else ""
    reached = in_reach(module.scope(made), module.scope(node)) or (
        text.startswith("self.") and _class_around(module, made) is _class_around(module, node) is not None
    )
    return text if re.fullmatch(r"[\w.]+", text) is not None and reached else ""


def _class_around(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """The class in which a node stands."""
    return next((around for around in module.ancestors(node) if isinstance(around, cst.ClassDef)), None)


def _holds_tokenizer(module: Module, made: cst.CSTNode) -> bool:
    """Whether an expression makes a collator with a `tokenizer`: most of the library's, and classes that say so."""
    if not isinstance(made, cst.Call):
        return False
    name = module.qualified(made.func) or ""
    if name.startswith("transformers."):
        return name.rsplit(".", 1)[-1].startswith("DataCollator") and not name.endswith("WithFlattening")
    meaning = module.meaning(made.func)
    classes = [binding.node for binding in meaning[1] if isinstance(binding.node, cst.ClassDef)] if meaning else []
    return any(re.search(r"\btokenizer\s*:|self\.tokenizer\s*=", module.code(each)) for each in classes)

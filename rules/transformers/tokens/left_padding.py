"""Rows that are padded on the left: their first token is predicted from padding, which has nothing to see.

tokenizer.padding_side = "left"
tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")  # whose class does so in transformers 4
"""

from __future__ import annotations

import re
from typing import Literal

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import (
    Module,
    followed,
    function_around,
    makes_pair,
    origins,
    plain_version,
    role_uses,
    usual_texts,
    version_key,
)
from porter.packs.training import is_behind, table_of

PART_OF = "transformers"

UNTRAINED = (
    "The rows are padded on the left: on the GPU the last padding predicts each row's first token, from what the "
    "attention's kernel lets it see. The port's rows have no padding in front, and train all tokens but that one."
)
EVALUATED = (
    "The rows are padded on the left: with several rows a batch the last padding predicts each shorter row's first "
    "token on the GPU, and eval_loss counts it. The port's rows have no padding in front, and count all tokens but "
    "that one. Training has one row a batch, which nothing pads."
)
BY_CLASS = "{} pads on the left in transformers 4 by its class, unless its tokenizer_config.json says right. Then: "
BATCHES = ("train", "evaluate", "predict")  # the trainer's methods that pad rows
PADS_RIGHT = (0, 16)  # TRL's SFTTrainer, whatever the tokenizer says, from here on
MAX_DEPTH = 3  # functions that call one another
# Checkpoints of Llama's, CodeLlama's and Gemma's fast tokenizers, which pad left where the checkpoint doesn't say.
LEFT = re.compile(
    r"gemma|mi[sx]tral|zephyr|code-?llama|llama-?[12]\b|(?:/|open_?)llama-?(?:\d+b|v2|$)|vicuna|alpaca-|deepseek"
    r"|solar|openhermes|phi-?3",
    re.IGNORECASE,
)
RIGHT = re.compile(r"nemo|ministral|llama-?3|phi-?3-small", re.IGNORECASE)  # of other classes
SAYS_RIGHT = re.compile(r"llama-?2\b|tinyllama|vicuna", re.IGNORECASE)  # the published ones' files do
SLOW = re.compile(r"(?:Code)?(?:Llama|Gemma)Tokenizer$")  # these padded right
FIX = 'One token a row; padding_side="right" on the GPU trains what the port does.'


@step(Phase.WRITE, of="trainer", fills=("parts",))
def answer_left_padding(porting: Porting) -> None:
    """What TRL's older collators train from padding, and the port's rows leave out."""
    assert porting.trainer is not None
    kind, release = table_of(porting, porting.trainer).kind, plain_version(porting.versions.get("trl", ""))
    if kind == "sft" and release and version_key(release) < PADS_RIGHT and porting.known("data.packing") is not True:
        say_untrained(porting)


def pads_left(porting: Porting) -> cst.CSTNode | None:
    """The last place where the training's tokenizer is told to pad on the left, unless a later one says right."""
    said = _said_last(porting)
    return said[1] if said is not None and says_side(porting) == "left" else None


def says_side(porting: Porting) -> str:
    """On which side the training's tokenizer is told to pad; empty where nothing says it, or the run decides."""
    said = _said_last(porting)
    value = said[2] if said is not None else None
    return str(value.evaluated_value) if isinstance(value, cst.SimpleString) else ""


def is_said(porting: Porting) -> bool:
    """Whether the script tells the training's tokenizer on which side to pad, whatever it says."""
    return _said_last(porting) is not None


def _said_last(porting: Porting) -> tuple[tuple[int, int], cst.CSTNode, cst.BaseExpression] | None:
    """The last of the places that tell the training's tokenizer a side: where it is, its code, and the side."""
    module = porting.module
    if "padding_side" not in module.text:
        return None
    said = [(module.location(node), node, value) for node in module.parents if (value := _side(node)) is not None]
    said = [each for each in said if not _is_after(porting, each[1]) and not _is_of_another(porting, each[1])]
    return max(said, key=lambda each: each[0]) if said else None


def _is_after(porting: Porting, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether code runs only when all is trained and evaluated, here or in a function that is called from there."""
    module = porting.module
    if is_behind(porting, node):
        trains = [use.outer for use in role_uses(porting, "trainer") if use.chain in BATCHES]
        here, start = function_around(module, node), module.span(node)[0]
        known = all(function_around(module, use) is here and module.span(use)[1] <= start for use in trains)
        return known and (bool(trains) or porting.loop is not None)
    function = function_around(module, node)
    if function is None or depth > MAX_DEPTH or isinstance(module.scope(function).node, cst.ClassDef):
        return False
    calls = module.references(function.name.value, module.scope(function))
    return bool(calls) and all(_is_after(porting, call, depth + 1) for call in calls)


def _is_of_another(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a place speaks of a tokenizer that the trainer surely hasn't, and that makes no rows before it."""
    module = porting.module
    around = module.parents[node]
    if isinstance(node, cst.Assign):
        target = node.targets[0].target
        said = _loaded(module, target.value) if isinstance(target, cst.Attribute) else None
    else:
        said = around if isinstance(around, cst.Call) and _is_load(module, around) else None
    own = [_loaded(module, each) for each in _of_trainer(porting)]
    if said is None or not own or None in own or said in own:
        return False
    return all(_only_sets(module, use) or _is_after(porting, use) for use in _held(module, said))


def _of_trainer(porting: Porting) -> list[cst.BaseExpression | None]:
    """The tokenizers that may pad the trainer's rows: its own, and its collator's; None for one that isn't seen."""
    if porting.trainer is None:
        return []
    given = porting.trainer.argument("processing_class", "tokenizer")
    found = [given.node] if given is not None and not given.value.is_literal(None) else []
    collator = porting.trainer.argument("data_collator")
    if collator is None or collator.value.is_literal(None):
        return found
    made = [*origins(porting.module, collator.node)]
    call = made[-1] if made else None
    name = porting.module.qualified(call.func) or "" if isinstance(call, cst.Call) else ""
    if not isinstance(call, cst.Call) or not name.startswith(("transformers.", "trl.")):
        return [None]
    named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "tokenizer"]
    first = [
        arg.value for arg in call.args if arg.keyword is None and not arg.star and name.startswith("transformers.")
    ]
    return [*found, next(iter([*named, *first]), None)]


def _loaded(module: Module, node: cst.BaseExpression | None) -> cst.Call | None:
    """The call that loads a tokenizer, alone or beside its model."""
    for made in origins(module, node):
        if isinstance(made, cst.Call) and _is_load(module, made):
            return made
    found = module.meaning(node)
    pair = found[1][0].value if found is not None and len(found[1]) == 1 else None
    return pair if isinstance(pair, cst.Call) and makes_pair(module, pair) else None


def _is_load(module: Module, call: cst.Call) -> bool:
    name = module.qualified(call.func) or ""
    return name.startswith("transformers.") and name.endswith(".from_pretrained")


def _held(module: Module, call: cst.Call) -> list[cst.BaseExpression]:
    """The uses of what a call makes, wherever the file hands it; the call where it is used on the spot."""
    places, calls = followed(module, [call], placed=False)
    uses = [use for place in places for use in module.references(place.variable, place.scope)]
    return [*uses, *calls] if places else [call]


def _only_sets(module: Module, use: cst.CSTNode) -> bool:
    """Whether a use sets or reads an attribute, `tokenizer.pad_token = tokenizer.eos_token`."""
    around = module.parents[use]
    return isinstance(around, cst.Attribute) and not isinstance(module.parents[around], cst.Call)


def _side(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What a statement or a keyword sets `padding_side` to."""
    if isinstance(node, cst.Arg):
        return node.value if node.keyword is not None and node.keyword.value == "padding_side" else None
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0].target
    return node.value if isinstance(target, cst.Attribute) and target.attr.value == "padding_side" else None


def say_untrained(porting: Porting) -> None:
    """A finding where the source's collator trains, or evaluates, what the port's rows leave out."""
    message = _differs(porting)
    if porting.trainer is None or not message:
        return
    node, by_class = pads_left(porting), "" if is_said(porting) else padded_by_class(porting)
    if node is not None:
        porting.find(porting.trainer.rule, "warning", message, FIX, *porting.module.location(node))
    elif by_class:
        site, message = porting.trainer, BY_CLASS.format(by_class) + message
        severity: Literal["info", "warning"] = "info" if SAYS_RIGHT.search(by_class) else "warning"
        porting.find(site.rule, severity, message, FIX, site.line, site.column)


def _differs(porting: Porting) -> str:
    """What left padding makes different; nothing where no batch is padded, or the collator masks a row's start."""
    assert porting.trainer is not None
    collator = porting.trainer.argument("data_collator")
    made = [*origins(porting.module, collator.node)] if collator is not None else []
    if any(isinstance(each, cst.Call) and _masks_start(porting.module, each) for each in made):
        return ""
    if porting.known("batch.per_device") != 1 or porting.known("batch.split_batches") is True:
        return UNTRAINED
    given = porting.trainer.argument("eval_dataset")
    evaluates = given is not None and not given.value.is_literal(None)
    return EVALUATED if evaluates and porting.known("batch.eval_per_device") != 1 else ""


def _masks_start(module: Module, call: cst.Call) -> bool:
    return (module.qualified(call.func) or "").endswith(".DataCollatorForCompletionOnlyLM")


def padded_by_class(porting: Porting) -> str:
    """The checkpoint of the training's tokenizer whose class pads on the left by itself; empty for none."""
    release = plain_version(porting.versions.get("transformers", ""))
    if not release or version_key(release) >= (5,) or porting.trainer is None:
        return ""
    code = tokenizer_code(porting, slow=False)
    found = usual_texts(porting.module, code) if code else []
    return next((each for each in found if LEFT.search(each) and not RIGHT.search(each)), "")


def tokenizer_code(porting: Porting, *, slow: bool = True) -> str:
    """The code that names the checkpoint of the training's tokenizer; empty where none is seen, or a slow one."""
    assert porting.trainer is not None
    module, given = porting.module, porting.trainer.argument("processing_class", "tokenizer")
    if given is None or given.value.is_literal(None):
        of_another = porting.model is not None and not porting.model.qualified.startswith("transformers.")
        return porting.text("model.id") if porting.value("model.id") is not None and not of_another else ""
    load = _loaded(module, given.node)
    if load is None or not _is_load(module, load) or (not slow and _is_slow(module, load)):
        return ""
    return next((module.code(arg.value) for arg in load.args if arg.keyword is None and not arg.star), "")


def _is_slow(module: Module, load: cst.Call) -> bool:
    """Whether a load gives a tokenizer in Python, which pads on the right."""
    named = (module.qualified(load.func) or "").split(".")[-2]
    words = {arg.keyword.value: arg.value for arg in load.args if arg.keyword is not None}
    fast = words.get("use_fast")
    if fast is None:
        return SLOW.match(named) is not None
    return isinstance(fast, cst.Name) and fast.value == "False"

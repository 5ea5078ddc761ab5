"""What padding sees, by the kernel of the source's attention, for trainers that pad as the tokenizer says.

model = AutoModelForCausalLM.from_pretrained("google/gemma-3-270m", attn_implementation="eager")  # pads left by itself
model.config._attn_implementation = "eager"
model = AutoModelForCausalLM.from_pretrained(name, use_flash_attention_2=True)
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.runtime import trl_release
from porter.packs.script import origins, plain_version, usual_texts, version_key
from porter.packs.training import in_reach, table_of
from porter.packs.writing import quoted

from ..trainer.on_cpu import forces_cpu, unmasks_on_gpus
from .left_padding import is_said, padded_by_class, pads_left, says_side, tokenizer_code

PART_OF = "transformers"
TOLD = "XLA's kernel; what padding sees is told to the batches: attention="
# Checkpoints whose published tokenizers pad right, whatever their class says.
SURELY_RIGHT = re.compile(
    r"Qwen/Qw|meta-llama/(?:Meta-)?Llama-3|HuggingFaceTB/|EleutherAI/|(?:openai-community/)?(?:distil)?gpt2",
    re.IGNORECASE,
)
COLLATOR, PLAIN_COLLATORS = "DataCollatorForLanguageModeling", ("default_data_collator", "DefaultDataCollator")
PADS = ("padding", "pad_to")  # where neither stands only a collator that pads makes padding
SET_SINCE = (4, 48)  # releases whose attention asks the configuration at every step
SHUN_SDPA = {"gemma2": ((4, 45), (4, 48))}  # families that took eager attention by themselves, in these releases


@step(Phase.WRITE, of="trainer", fills=("parts",))
def tell_attention(porting: Porting) -> None:
    """The batches of a Trainer, or of a loop, are told the kernel where it decides what padding sees."""
    assert porting.trainer is not None
    if table_of(porting, porting.trainer).kind not in ("causal-lm", "loop"):
        return
    told = porting.code["attention"] = attention_of_padding(porting)
    for name in (".attn_implementation", ".use_flash_attention_2") if told else ():
        porting.change_fate(name, reason=TOLD + told)


def attention_of_padding(porting: Porting) -> str:
    """The code of the batches' `attention=` where the source's kernel decides what padding sees; empty for none.

    Flash attention leaves out padding anywhere in a row, which matters where its labels are trained: transformers' own
    collators for language models leave it without. A loop's batches don't know the release of transformers, which is
    told them where that one's kernel did otherwise.
    """
    if porting.model is None:
        return ""
    code, name = _kernel(porting)
    left, unlabelled = _may_pad_left(porting), _leaves_padding_without_labels(porting)
    if not code and left and unmasks_on_gpus(porting) and forces_cpu(porting) is not None:
        return _as_on_cpu(porting) if pads_left(porting) is not None or padded_by_class(porting) else ""
    release = plain_version(porting.versions.get("transformers", "")) or None
    if name:
        own = _of_no_token(release if porting.loop is None else None, None, unlabelled)
        differs = _of_no_token(release, name, unlabelled) != own
        told, code = differs and (left or ("flash" in name and not unlabelled)), quoted(name)
    else:
        told = left or not unlabelled
    if not told or not _is_there(porting, code, name):
        return ""
    as_today = not release or (name and _of_no_token(release, name, False) == _of_no_token(None, name, False))
    return code if porting.loop is None or as_today else f"({code}, {quoted(release or '')})"


def _kernel(porting: Porting) -> tuple[str, str]:
    """The code by which the source chooses a kernel, empty for none, and its name, empty where the run decides."""
    assert porting.model is not None
    older = porting.model.argument("use_flash_attention_2")
    given = porting.model.argument("attn_implementation")
    if given is not None and not given.value.is_literal(None):
        name = given.value.literal if given.value.known else ""
        return given.text, name if isinstance(name, str) else ""
    if older is not None and older.value.is_literal(True):
        return older.text, "flash_attention_2"
    release = version_key(plain_version(porting.versions.get("transformers", "")) or "5")
    elsewhere = _set_elsewhere(porting, release)
    if elsewhere:
        return elsewhere, elsewhere
    since, until = SHUN_SDPA.get(porting.family.name if porting.family is not None else "", ((0,), (0,)))
    return "", "eager" if release < (4, 36) or since <= release < until else "sdpa"


def _set_elsewhere(porting: Porting, release: tuple[int, ...]) -> str:
    """The kernel that the model's configuration says, or is told: the only one of the file."""
    module = porting.module
    if "attn_implementation" not in module.text:
        return ""
    said: list[cst.BaseExpression] = []
    for node in module.parents:
        if isinstance(node, cst.Call):
            name, words = module.qualified(node.func) or "", node.args
            if name.startswith("transformers.") and name.endswith("Config.from_pretrained"):
                said += [a.value for a in words if a.keyword is not None and a.keyword.value == "attn_implementation"]
            elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "set_attn_implementation":
                said += [each.value for each in words[:1]]
        elif isinstance(node, cst.Assign) and release >= SET_SINCE:
            target = node.targets[0].target
            if isinstance(target, cst.Attribute) and target.attr.value in (
                "_attn_implementation",
                "attn_implementation",
            ):
                said.append(node.value)
    names = {str(each.evaluated_value) if isinstance(each, cst.SimpleString) else "" for each in said}
    return names.pop() if len(names) == 1 else ""


def _of_no_token(transformers: str | None, kernel: str | None, unlabelled: bool) -> str:
    """`Release.of_no_token`, where padding between or behind the tokens of a row has no label."""
    found = trl_release(None, transformers).of_no_token(kernel)
    return "nothing" if unlabelled and found == "unpadded" else found


def _is_there(porting: Porting, code: str, name: str) -> bool:
    """Whether the batches can read the kernel; a finding where the run decides it in another function."""
    assert porting.model is not None and porting.trainer is not None
    given = porting.model.argument("attn_implementation")
    if name or given is None or in_reach(porting.model.scope, porting.trainer.scope):
        return True
    message = f"attn_implementation={code}: rows that are padded on the left are predicted from what this kernel shows "
    message += "padding, and the port's are as under sdpa: the name isn't known where the batches are made."
    porting.find(PART_OF, "warning", message, "Give it to the batches: attention=.", given.line, given.column)
    return False


def _may_pad_left(porting: Porting) -> bool:
    """Whether a batch may have padding in front of a row: not where the script or the checkpoint surely pads right."""
    module, model = porting.module, porting.model
    if not _pads(porting):
        return False
    if is_said(porting):
        return says_side(porting) != "right"
    if model is not None and not model.qualified.startswith("transformers."):
        return False
    found = usual_texts(module, code) if (code := tokenizer_code(porting)) else []
    return not found or not all(SURELY_RIGHT.match(each) for each in found)


def _pads(porting: Porting) -> bool:
    """Whether anything may pad: the script, or a collator that gets more than one row."""
    if any(word in porting.module.text for word in PADS):
        return True
    collator = _collator(porting)
    if collator.split(".")[-1] in PLAIN_COLLATORS:
        return False
    given = porting.trainer.argument("eval_dataset") if porting.trainer is not None else None
    evaluates = given is not None and not given.value.is_literal(None)
    sizes = ("batch.per_device", "batch.eval_per_device") if evaluates else ("batch.per_device",)
    return porting.known("batch.split_batches") is True or any(porting.known(size) != 1 for size in sizes)


def _as_on_cpu(porting: Porting) -> str:
    """Eager attention, whose loss sdpa has on a CPU."""
    found = forces_cpu(porting)
    assert found is not None
    message = f"{found[0]}: on a CPU padding in front of a row has eager attention's loss, and so it has in the port. "
    message += "torch multiplies its gradient by the batch's length there, which the port doesn't."
    porting.find(PART_OF, "info", message, 'padding_side="right" trains the same on both.', *found[1:])
    return quoted("eager")


def _leaves_padding_without_labels(porting: Porting) -> bool:
    """Whether the trainer's collator is transformers' DataCollatorForLanguageModeling, which makes the labels."""
    return _collator(porting) == f"transformers.{COLLATOR}"


def _collator(porting: Porting) -> str:
    """The import name of what the trainer's collator is, or is made by; empty where that isn't known."""
    collator = porting.trainer.argument("data_collator", "collate_fn") if porting.trainer is not None else None
    if collator is None or collator.node is None:
        return ""
    made = [*origins(porting.module, collator.node)][-1:]
    named = made[0].func if made and isinstance(made[0], cst.Call) else collator.node
    return porting.module.qualified(named) or ""

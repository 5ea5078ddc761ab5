"""GRPO and RLOO of TRL 0.25 to 0.29 pad prompts of messages on the tokenizer's own side before they sample.

What it does: says so where several prompts are sampled together; the port samples each behind its own last token.
Why: the trainers hand `padding_side="left"` to `apply_chat_template`, which gives it to the template alone. Of a
tokenizer that pads on the right (Llama's, Qwen's) generate continues shorter prompts behind their padding. Before 0.25
prompts were texts by then; from 1.0 on the trainer pads their ids itself.
"""

from __future__ import annotations

import re
from typing import Literal

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, rewritten_by, samples_one_prompt, table_of

PART_OF = "trl"
FIRST, GONE = (0, 25), (1,)
PADS_LEFT = re.compile(r"padding_side\s*=\s*[\"']left[\"']")
MESSAGES = re.compile(r"[\"']role[\"']\s*:")
OWN_WAY = ("use_transformers_paged", "use_transformers_continuous_batching")


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_right_padded(porting: Training) -> None:
    """A warning where the file makes messages; an info where its rows may hold some."""
    site, module = porting.trainer, porting.module
    release = plain_version(porting.versions.get("trl", ""))
    if site is None or table_of(porting, site).kind not in ("grpo", "rloo") or not release:
        return
    if not FIRST <= version_key(release) < GONE or porting.known("rollout.vllm", False) is not False:
        return
    tokenizer = site.argument("processing_class")
    if tokenizer is None or tokenizer.value.is_literal(None) or PADS_LEFT.search(module.text):
        return  # TRL loads its own with padding on the left
    if isinstance(site.node, cst.Call) and rewritten_by(porting, site.node.func):
        return  # Unsloth's samples itself
    asked = [porting.config.argument(name) for name in OWN_WAY] if porting.config is not None else []
    if any(argument is not None and argument.value.is_literal(True) for argument in asked):
        return
    if samples_one_prompt(porting):
        return
    message = (
        f"TRL {release} pads prompts that are messages on the tokenizer's own side: where that is the right one, as "
        "Llama's and Qwen's, it samples shorter prompts' completions behind padding. The port samples them behind the "
        "prompt."
    )
    fix = 'padding_side="left" for its tokenizer samples the same on both.'
    severity: Literal["info", "warning"] = "warning" if MESSAGES.search(module.text) else "info"
    porting.find(site.rule, severity, message, fix, site.line, site.column)

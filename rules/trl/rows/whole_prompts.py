"""GRPO of TRL before 0.19 with vLLM: it samples behind the whole of a long prompt, and trains behind its end."""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, rewritten_by, table_of

PART_OF = "trl"
CUTS_FOR_VLLM = (0, 19)
LONGEST = "rollout.max_prompt_length"


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_whole_prompts(porting: Training) -> None:
    """A reason at max_prompt_length, or an info where it is the default."""
    site, vllm, longest = porting.trainer, porting.value("rollout.vllm"), porting.value(LONGEST)
    release = plain_version(porting.versions.get("trl", ""))
    if site is None or table_of(porting, site).kind != "grpo" or not release or version_key(release) >= CUTS_FOR_VLLM:
        return
    if vllm is None or vllm.is_literal(None, False) or longest is None or longest.is_literal(None):
        return
    if isinstance(site.node, cst.Call) and rewritten_by(porting, site.node.func):  # Unsloth's samples itself
        return
    said = f"TRL {release} tells vLLM the whole of a longer prompt, and trains behind its last tokens; the port samples"
    said += " behind these, too"
    rows = [row.source for row in porting.fields if row.source.endswith(".max_prompt_length")]
    for source in rows:
        porting.add_reason(source, said)
    if not rows:
        message = f"max_prompt_length={longest.code}, the default: {said}."
        porting.find(site.rule, "info", message, "", site.line, site.column)

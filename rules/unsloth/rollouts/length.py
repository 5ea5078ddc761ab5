"""GRPO of a model of Unsloth's: its max_seq_length holds a prompt and its completion together.

What it does: says whether max_prompt_length and max_completion_length are within it, and warns where they aren't.
Why: Unsloth's vLLM is made with max_model_len=max_seq_length, where a completion ends; without vLLM its models read so
many tokens of a row, and no more. The port's completions have max_completion_length, whatever their prompt's length.
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, Severity, Value, step
from porter.packs.training import Training, table_of

PART_OF = "TP703"

OF_MODEL, PROMPT, COMPLETION = "model.max_seq_length", "rollout.max_prompt_length", "rollout.max_completion_length"
ROLLS_OUT = ("grpo", "rloo")
LOADED = ("FastLanguageModel", "FastModel")
TRIED = (64, 1000, 1001, 1002, 1003)  # lengths for which a calculation is tried
SUM = re.compile(r"[\d\s+\-*/()]+")


@step(Phase.READ, of="trainer", reads=("model", "values", OF_MODEL))
def say_rollout_length(porting: Training) -> None:
    """The fate of max_seq_length where completions are sampled, and a finding where it ends them."""
    site, model = porting.trainer, porting.model
    if site is None or porting.loop is not None or table_of(porting, site).kind not in ROLLS_OUT:
        return
    held = porting.value(OF_MODEL)
    if model is None or held is None or not model.qualified.startswith("unsloth."):
        return
    prompt, completion = porting.value(PROMPT), porting.value(COMPLETION)
    if _is_within(held, prompt, completion):
        reason = "prompts and completions have no more tokens together; rotary settings come from config.json"
    else:
        reason = "completions have max_completion_length in the port, whatever their prompt's length"
        _say(porting, held, prompt, completion)
    for name in LOADED:
        porting.change_fate(f"{name}.max_seq_length", fate="dropped", target="", reason=reason)


def _is_within(held: Value, prompt: Value | None, completion: Value | None) -> bool:
    """Whether both fit: as numbers, or as the script calculates them, LENGTH // 4 and LENGTH - LENGTH // 4."""
    if prompt is None or completion is None:
        return False
    length, ahead, behind = _number(held), _number(prompt), _number(completion)
    if length is not None:
        return ahead is not None and behind is not None and ahead + behind <= length
    for tried in TRIED:
        first = _calculated(_code(prompt), {_code(held): tried})
        # A length that isn't known is any: `LENGTH - PROMPT` is within for each of them, `LENGTH // 2` isn't.
        for ahead in (1, tried // 2, tried - 1) if first is None else (first,):
            known = {_code(prompt): ahead} if first is None else {}
            rest = _calculated(_code(completion), {**known, _code(held): tried})
            if rest is None or ahead + rest > tried:
                return False
    return True


def _code(value: Value) -> str:
    return value.text or value.code


def _calculated(code: str, known: dict[str, int]) -> int | None:
    """What a sum or a quotient of these comes to; None for anything else."""
    for name, number in known.items():
        code = code.replace(name, str(number))
    try:
        return int(eval(code, {"__builtins__": {}})) if SUM.fullmatch(code) and "**" not in code else None
    except (SyntaxError, ArithmeticError, TypeError):
        return None


def _say(porting: Training, held: Value, prompt: Value | None, completion: Value | None) -> None:
    site = porting.model
    assert site is not None
    length, ahead, behind = _number(held), _number(prompt), _number(completion)
    argument = site.argument("max_seq_length")
    line, column = (argument.line, argument.column) if argument is not None else (site.line, site.column)
    severity: Severity = "info"
    message = f"max_seq_length={length or _code(held)}: Unsloth ends a completion where its prompt and it have so many "
    message += "tokens together; the port's have max_completion_length, whatever the prompt's length."
    fix = "Give max_completion_length what the longest prompt leaves of max_seq_length."
    if length is not None and behind is not None and ahead is not None:
        severity = "warning"
        message += f" Here max_prompt_length and it are {ahead + behind}."
        fix = f"max_completion_length={length - ahead} is never too long." if length > ahead else fix
    porting.find(PART_OF, severity, message, fix, line, column)


def _number(value: Value | None) -> int | None:
    held = value.literal if value is not None and value.known else None
    return held if isinstance(held, int) and not isinstance(held, bool) else None

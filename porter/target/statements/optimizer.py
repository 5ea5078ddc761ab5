"""The optimizer and its schedule: plain Optax where it has the exact part, `rt.hf_*` where only the script can say.

Schedules count optimizer steps on both sides, and the first step of a warmup has rate 0 on both.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from pathlib import Path

from ...engine.dating.asked.places import pins_for
from ...engine.loops.parts import loop_parts
from ...engine.receipts.marking import mark, mark_keywords, unread
from ...engine.script.fill_from_tables import plain_version
from ...engine.script.porting import Porting
from ...engine.script.training import Training
from ...releases.versions import can_meet
from ...runtime.facts.field_tables import version_key
from ...source.project.commits import latest_day
from ...text.expressions import atom, python, quoted
from ...text.layout import Arg, Call, render
from .gradient_scale import gradient_scale
from .remarks import default_of, marked, remarked, remarked_line

ADAMW = (
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_torch_xla",
    "adamw_torch_npu_fused",
    "paged_adamw",
    "paged_adamw_32bit",
    "paged_adamw_8bit",
    "adamw_8bit",
    "adamw_bnb_8bit",
)


OF_BITSANDBYTES = ("paged_adamw", "paged_adamw_32bit", "paged_adamw_8bit", "adamw_8bit", "adamw_bnb_8bit")
# What one statement is made of: its schedule, and how long it warms up.
SAID_OF = (
    "optimizer.learning_rate",
    "schedule.name",
    "schedule.warmup_ratio",
    "schedule.warmup_steps",
    "schedule.kwargs",
)
FUSED_SINCE = ("2.8", datetime.date(2025, 8, 6))  # the release of torch, and its day
OWN = "schedule.own_"  # the places of a schedule's own arguments
OPTAX_SCHEDULES = ("constant", "constant_with_warmup", "cosine", "linear")


def schedule_lines(porting: Porting, steps: str, indent: str) -> list[str]:
    """The statements that make the schedule (optimizer step → learning rate); `steps` is the code of all steps.

    A warmup that has to be calculated gets a line of its own.
    """
    rate, name = porting.text("optimizer.learning_rate"), _optax_name(porting)
    counts = warmup_place(porting)
    for place in ("schedule.warmup_ratio", "schedule.warmup_steps"):
        if place != counts and not porting.arguments_object:
            unread(porting, f"{counts.rpartition('.')[2]} counts", place)
    warmup = None if name is None else "0" if name == "constant" else warmup_steps(porting, steps)
    if name == "constant":
        for keyword in (".warmup_ratio", ".warmup_steps"):
            porting.change_fate(keyword, fate="dropped", target="", reason="a constant schedule has no warmup")
    lines = []
    call: Call
    if name is None or warmup is None:
        call = _general(porting, rate, steps)
    else:
        if warmup.startswith("math."):
            variable = porting.fresh("warmup_steps", "lr_warmup_steps")
            place = warmup_place(porting)
            note = porting.note(porting.value(place))
            note = f"# {note}" if note else ""
            lines, warmup = remarked_line(porting, f"{variable} = {warmup}", indent, place, note=note), variable
        call = _optax_schedule(porting, name, rate, warmup, steps)
    schedule = porting.names.schedule
    line = f"{schedule} = {render(call, indent, before=len(schedule) + 3)}"
    return [*lines, *_with_comments(porting, line, indent)]


def _with_comments(porting: Porting, line: str, indent: str) -> list[str]:
    schedule = loop_parts(porting)[2] if porting.loop is not None else None
    line = mark_keywords(porting, schedule, "optimizer", "num_training_steps") + line
    given = porting.given("optimizer.learning_rate")
    note = "" if given else f"# {default_of(porting, 'optimizer.learning_rate')} learning_rate"
    return remarked_line(porting, line, indent, *SAID_OF, note=note)


def _optax_name(porting: Porting) -> str | None:
    """The schedule's name when Optax has it exactly: one of `OPTAX_SCHEDULES` without further arguments."""
    name = porting.value("schedule.name")
    plain = porting.known("schedule.kwargs", fallback="?") in (None, {})
    last, warmup = porting.known("run.max_steps", -1), porting.known("schedule.warmup_steps", 0) or 0
    if isinstance(last, int) and 0 < last <= warmup:
        return None  # Optax's cosine has to be longer than its warmup
    if name is None or not name.known or not plain or name.literal not in OPTAX_SCHEDULES:
        return None
    return None if _once_an_epoch(porting) and name.literal != "constant" else str(name.literal)


def _optax_schedule(porting: Porting, name: str, rate: str, warmup: str, steps: str) -> Call:
    porting.imports.add("import optax")
    if name.startswith("constant") and warmup == "0":
        return Call("optax.constant_schedule", [Arg(rate)])
    if warmup == "0" and name == "cosine":
        return Call("optax.cosine_decay_schedule", [Arg(rate), Arg(steps)])
    if warmup == "0":
        return Call("optax.linear_schedule", [Arg(rate), Arg("0.0"), Arg(steps)])
    if name == "cosine":
        arguments = [
            Arg("0.0"),
            Arg(rate),
            Arg(warmup, "warmup_steps"),
            Arg(_decay(porting, warmup, steps), "decay_steps"),
        ]
        return Call("optax.warmup_cosine_decay_schedule", arguments)
    up = Call("optax.linear_schedule", [Arg("0.0"), Arg(rate), Arg(warmup)])
    left = f"{steps} - {atom(warmup)}"
    down = Call("optax.linear_schedule", [Arg(rate), Arg("0.0"), Arg(left)])
    flat = Call("optax.constant_schedule", [Arg(rate)])
    parts = Call("", [Arg(up), Arg(down if name == "linear" else flat)], brackets="[]")
    return Call("optax.join_schedules", [Arg(parts), Arg(f"[{warmup}]")])


def _decay(porting: Porting, warmup: str, steps: str) -> str:
    """All steps, where they may be fewer than those of the warmup one more than these: Optax refuses a shorter cosine.

    transformers takes it, and ends within the warmup.
    """
    last, place = porting.known("run.max_steps", -1), warmup_place(porting)
    given = porting.known(place)
    is_count = place == "schedule.warmup_steps" and isinstance(given, int)
    if isinstance(last, int) and last > 0:  # longer than a warmup that is counted, or it wouldn't be Optax's
        if is_count or (isinstance(given, int | float) and math.ceil(given * last) < last):
            return steps
    return f"max({steps}, {int(warmup) + 1 if warmup.isdigit() else f'{warmup} + 1'})"


def _general(porting: Porting, rate: str, steps: str) -> Call:
    """`rt.hf_schedule`: transformers' schedule by name, for a name or kwargs that Optax has no function for."""
    name = mark(porting, "schedule.name") + porting.text("schedule.name")
    arguments = [Arg(name), Arg(mark(porting, "optimizer.learning_rate") + rate)]
    place = warmup_place(porting)
    warmup = porting.value(place)
    if warmup is not None and not warmup.is_literal(None, 0, 0.0):
        older = version_key(porting.versions.get("transformers", "5")) < (5,)
        keyword = "warmup_ratio" if older and place == "schedule.warmup_ratio" else "warmup_steps"
        arguments.append(Arg(mark(porting, place) + porting.text(place), keyword))
    arguments.append(Arg(steps, "steps"))
    kwargs = porting.value("schedule.kwargs")
    if own := _own_arguments(porting):
        arguments.append(Arg(own, "kwargs"))
    elif kwargs is not None and not kwargs.is_literal(None, {}):
        arguments.append(Arg(mark(porting, "schedule.kwargs") + porting.text("schedule.kwargs"), "kwargs"))
    if _part_of_a_step(porting):
        arguments.append(Arg("False", "shares", comment="# below 1: a part of one step before transformers 4.42"))
    if _once_an_epoch(porting):
        arguments.append(Arg(f"{porting.names.batches}.steps_per_epoch", "every"))
    return Call(porting.rt("hf_schedule"), arguments)


def _own_arguments(porting: Porting) -> str:
    """The arguments of a schedule's class as a dict: those that the script gives."""
    places = [place for place in porting.recipe.values if place.startswith(OWN) and porting.given(place)]
    found = [f'"{place.removeprefix(OWN)}": {mark(porting, place)}{porting.text(place)}' for place in places]
    return f"{{{', '.join(found)}}}" if found else ""


def _once_an_epoch(porting: Porting) -> bool:
    return porting.loop is not None and porting.loop.scheduled_by_epoch


def warmup_place(porting: Porting) -> str:
    """Which of the two keywords counts: transformers 5 takes the ratio if there is one, 4 the steps unless they are 0.

    A config object puts the ratio into its warmup_steps, as transformers does.
    """
    ratio, steps = porting.value("schedule.warmup_ratio"), porting.value("schedule.warmup_steps")
    if porting.arguments_object or ratio is None or ratio.kind == "default" or ratio.is_literal(None):
        return "schedule.warmup_steps"
    older = version_key(porting.versions.get("transformers", "5")) < (5,)
    if older and steps is not None and not steps.is_literal(0, 0.0):
        return "schedule.warmup_steps"
    return "schedule.warmup_ratio"


def warmup_steps(porting: Porting, steps: str) -> str | None:
    """The code of the warmup's length in optimizer steps; None when only the running script can tell.

    A number below 1 is a ratio of all steps, rounded up.
    """
    place = warmup_place(porting)
    warmup = porting.value(place)
    if warmup is None or warmup.is_literal(None, 0, 0.0):
        return "0"
    if place == "schedule.warmup_ratio":
        older = version_key(porting.versions.get("transformers", "5")) < (5,)
        if not older and warmup.known and float(warmup.literal) >= 1:
            return str(int(float(warmup.literal)))  # a count: transformers 5 takes the ratio for warmup_steps
        return _ceil(porting, porting.text(place), steps)
    if not warmup.known or _part_of_a_step(porting):
        return None
    return _ceil(porting, porting.text(place), steps) if 0 < float(warmup.literal) < 1 else porting.text(place)


def _part_of_a_step(porting: Porting) -> bool:
    """Whether the warmup is shorter than a step: a fraction was that before transformers 4.42."""
    warmup = porting.value("schedule.warmup_steps")
    if warmup_place(porting) != "schedule.warmup_steps" or warmup is None or not warmup.known:
        return False
    older = version_key(porting.versions.get("transformers", "5")) < (4, 42)
    return older and warmup.literal is not None and 0 < float(warmup.literal) < 1


def _ceil(porting: Porting, ratio: str, steps: str) -> str:
    porting.imports.add("import math")
    return f"math.ceil({atom(ratio)} * {steps})"


def optimizer_call(porting: Porting, *, full: bool, separate_kv: bool, lora_maybe: bool) -> Call:
    """`optax.chain(...)`: K/V separation, what a release did to gradients, clipping, the optimizer.

    `full`: all weights are trained, so decay skips norms and biases. `lora_maybe`: only the script knows.
    """
    porting.imports.add("import optax")
    links: list[Arg] = []
    if separate_kv:
        comment = "# PEFT trains K and V apart; Tunix holds them in one tensor" if not lora_maybe else ""
        if comment and porting.family is None:
            comment = "# PEFT trains K and V apart, also where Tunix holds them in one tensor"
        links.append(Arg(f"{porting.rt('separate_kv')}({porting.names.model})", comment=comment))
    links += gradient_scale(porting)
    links += _clip(porting)
    made = _optimizer(porting, full=full, lora_maybe=lora_maybe)
    norm = porting.value("optimizer.max_grad_norm")
    if norm is not None and norm.known and (norm.literal is None or norm.literal <= 0):  # nothing clips
        made = replace(made, head=mark(porting, "optimizer.max_grad_norm") + made.head)
    links.append(Arg(made, comment=_kernel(porting, made)))
    return Call("optax.chain", links, spread=len(links) > 1)


def _clip(porting: Porting) -> list[Arg]:
    place = "optimizer.max_grad_norm"
    norm = porting.value(place)
    if norm is None:
        return []
    if not norm.known:
        return [remarked(porting, Arg(f"{porting.rt('clip_by_global_norm')}({porting.text(place)})"), place)]
    if norm.literal is None or norm.literal <= 0:
        return []
    comment = "" if porting.given(place) else f"# {default_of(porting, place)} max_grad_norm"
    return [remarked(porting, Arg(f"optax.clip_by_global_norm({porting.text(place)})", comment=comment), place)]


def _note(porting: Training, name: str) -> str:
    note = porting.note(porting.value(f"optimizer.{name}"))
    return f"# {note}" if note else ""


def _mask(porting: Training, *, full: bool) -> Arg:
    """Which weights decay: neither norms nor biases; before transformers 4.53 the norms of most families did."""
    version = plain_version(porting.versions.get("transformers", ""))
    if version and version_key(version) < (4, 53):
        call = f"{porting.rt('older_decay_mask')}({porting.names.model}, {quoted(version)})"
        return Arg(call, "mask", "# which norms decay, as in this release" if full else "")
    return Arg(porting.rt("decay_mask"), "mask", "# not on norms and biases" if full else "")


def _fused(porting: Porting, call: Call) -> Call:
    """The optimizer, which computes in float32 where the weights it trains are, or may be, of fewer bits."""
    is_no_default = not porting.given("optimizer.name") and _has_older_torch(porting)
    if is_no_default or str(porting.known("model.weights")) == "float32":
        return call
    return Call(porting.rt("fused"), [Arg(call)])


def _has_older_torch(porting: Training) -> bool:
    """Whether the source's torch comes before 2.8, beside which transformers' default is not the fused kernel: where
    the first place that asks for one allows no later one, or none asks and the script is older than that."""
    release, came_out = FUSED_SINCE
    for _, pins in pins_for(porting, "torch"):
        return not can_meet([*pins, (">=", release)])
    day = latest_day(Path(porting.module.path))
    return day is not None and day < came_out


def _kernel(porting: Porting, made: Call) -> str:
    """Where a step that is computed in float32 comes from, if the script doesn't say it."""
    if not made.head.endswith("fused") or porting.given("optimizer.name"):
        return ""
    return f"# {default_of(porting, 'optimizer.name')} optim"


def _optimizer(porting: Porting, *, full: bool, lora_maybe: bool) -> Call:
    name = porting.value("optimizer.name")
    keywords = {"beta1": "b1", "beta2": "b2", "epsilon": "eps", "weight_decay": "weight_decay"}
    betas = mark(porting, "optimizer.betas")
    common = [
        remarked(porting, Arg(porting.text(f"optimizer.{name}"), keyword, _note(porting, name)), f"optimizer.{name}")
        for name, keyword in keywords.items()
    ]
    common[:2] = [marked(argument, betas) for argument in common[:2]]
    decay = porting.value("optimizer.weight_decay")
    masked = (full or lora_maybe) and not (decay is not None and decay.is_literal(0, 0.0))
    # DeepSpeed decays every parameter, and so does a loop that gives its optimizer all of them.
    masked = masked and porting.loop is None and not porting.given("optimizer.deepspeed")
    if masked:
        common.append(_mask(porting, full=full))
    if porting.value("optimizer.no_decay") is not None:  # of a loop's own groups
        call = f"{porting.rt('decay_mask_but')}({porting.names.model}, {porting.text('optimizer.no_decay')})"
        common.append(remarked(porting, Arg(call, "mask"), "optimizer.no_decay"))
    if name is not None and name.known and str(name.literal) in OF_BITSANDBYTES and full and not lora_maybe:
        if str(porting.known("model.weights")) == "bfloat16":
            reason = "bitsandbytes keeps 8 or 32 bits of state whatever the weights; optax the weights' bfloat16"
            porting.change_fate(".optim", fate="changed", reason=reason)
    if name is not None and name.known and str(name.literal) in ADAMW:
        adamw = Call(f"{mark(porting, 'optimizer.name')}optax.adamw", [Arg(porting.names.schedule), *common])
        return _fused(porting, adamw) if name.is_literal("adamw_torch_fused") and full else adamw
    if name is not None and name.is_literal("adamw_hf"):
        said = "" if porting.given("optimizer.name") else f"# {default_of(porting, 'optimizer.name')} optim"
        head = mark(porting, "optimizer.name") + porting.rt("adamw_hf")
        return Call(head, [Arg(porting.names.schedule, comment=said), *common])
    first = porting.text("optimizer.name")
    if name is not None and name.known:
        first = python(str(name.literal))
    extra = porting.value("optimizer.args")
    if extra is not None and not extra.is_literal(None):
        common.append(marked(Arg(porting.text("optimizer.args"), "args"), mark(porting, "optimizer.args")))
        if release := porting.code.get("optimizer_release"):
            common.append(Arg(quoted(release), "transformers", "# which reads args of some optimizers alone"))
    first = mark(porting, "optimizer.name") + first
    return Call(porting.rt("hf_optimizer"), [Arg(first), Arg(porting.names.schedule), *common])

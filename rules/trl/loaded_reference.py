"""A reference that TRL loads anew: it is the checkpoint, whatever was done to the model since it was loaded from there.

    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(MODEL), "out/sft").merge_and_unload()
    trainer = GRPOTrainer(model=model, args=GRPOConfig(beta=0.04), ...)

compares the policy with MODEL, not with the merged model that it starts from. Older releases took a copy of the latter,
but for the GRPOTrainer of a run that parts its weights over processes.
"""

from __future__ import annotations

from porter.packs.api import Phase, Porting, is_before, step
from porter.packs.script import role_uses
from porter.packs.training import (
    has_anothers_adapters,
    is_merged_into,
    launched_as,
    plain_versions,
    short_name,
    table_of,
    was_trained,
    when_quantised,
)

PART_OF = "trl"

# By kind of trainer: TRL's first release that loads its reference by the name in the model's config.
LOADS = {"grpo": "0.19", "rloo": "0.22", "dpo": "0.29", "kto": "1.2"}
# How a GRPO run parts its weights, and TRL's first release that loads its reference so, whether it has adapters or not.
LOADS_SHARDED = {"ZeRO-3": "0.14", "FSDP": "0.18"}
PAIRS = ("dpo", "kto")
RESIZES = "resize_token_embeddings"
REFERENCE, COPIED = "reference", "copied reference"  # of `Porting.code`
STAGE = "zero_optimization.stage"
TRAINED, QUANTISED = "the training before", "its quantisation"


@step(Phase.WRITE, of="trainer", fills=("parts",))
def load_reference(porting: Porting) -> None:
    """The port loads it anew, too, where the model isn't its checkpoint any more."""
    trainer = porting.trainer
    assert trainer is not None
    kind, given = table_of(porting, trainer).kind, trainer.argument("ref_model")
    if kind not in LOADS or porting.model is None or (given is not None and not given.value.is_literal(None)):
        return
    release = plain_versions(porting).get("trl", "")
    whose = f"TRL {release}" if release else "TRL"
    held, adapters = has_anothers_adapters(porting), _has_adapters(porting)
    sharded = _sharded(porting) if kind == "grpo" and is_before(porting, "trl", LOADS[kind]) else ""
    if is_before(porting, "trl", LOADS[kind]) and not sharded:
        if held:
            porting.code[COPIED] = f"# with the adapters that it has, as {whose} copies it"
        if kind == "grpo" and not adapters and not _is_free(porting, kind):
            _say_unsettled(porting, whose)
        return
    if _is_free(porting, kind) or (adapters and not sharded):
        return
    done = _done(porting)
    if adapters or held:
        _check_base(porting, f"{whose} under {sharded}" if sharded else whose, held)
    if adapters or not done:
        return
    whose += f" under {sharded}" if sharded else ""
    porting.code[REFERENCE] = f"# the checkpoint without {' and '.join(done)}, as {whose} loads it"
    argument = trainer.argument("peft_config")
    where = ", where it gets no adapters" if argument is not None and not argument.value.is_literal(None) else ""
    message = f"{short_name(trainer)} of {whose} loads its reference from the model's checkpoint, without "
    message += f"{' and '.join(done)}{where}: so does the port."
    fix = "Save the model and load that folder, before it is trained here, where the reference should have it."
    porting.find(trainer.rule, "info", message, fix, trainer.line, trainer.column)


def _sharded(porting: Porting) -> str:
    """How the run parts its weights, where its trainer's reference is loaded for that; "" for a copy."""
    stages = (setting.value for setting in porting.settings if STAGE in (setting.row, setting.name))
    fsdp = launched_as(porting) == "fsdp" or bool(porting.known("mesh.fsdp"))
    found = {"ZeRO-3": "3" in map(str, stages), "FSDP": fsdp}
    ways = (way for way, since in LOADS_SHARDED.items() if found[way] and not is_before(porting, "trl", since))
    return next(ways, "")


def _say_unsettled(porting: Porting, whose: str) -> None:
    """A warning where only the run knows whether it is under ZeRO-3, and the model isn't its checkpoint any more."""
    trainer, zero = porting.trainer, porting.value("mesh.zero")
    assert trainer is not None
    unknown = not zero.known if zero is not None else bool(porting.arguments_object)
    if unknown and (done := _done(porting)):
        message = f"{short_name(trainer)} of {whose} loads its reference from the model's checkpoint, without "
        message += (
            f"{' and '.join(done)}, where it runs under ZeRO-3, which only the run knows; the port copies the model."
        )
        fix = 'reference="checkpoint" at its batches does as there.'
        porting.find(trainer.rule, "warning", message, fix, trainer.line, trainer.column)


def _check_base(porting: Porting, whose: str, held: bool) -> None:
    """An error where the base below the adapters, which is the port's reference, isn't the checkpoint."""
    trainer = porting.trainer
    assert trainer is not None
    done = [each for each in _done(porting) if each != TRAINED or not held]
    if (
        not held and when_quantised(porting) is not False
    ):  # transformers trains no quantised model of another's adapters
        done.append(QUANTISED)
    if done:
        message = f"{short_name(trainer)} of {whose} loads its reference from the model's checkpoint, without "
        message += f"{' and '.join(done)}; the port's is the base below the adapters, which has it."
        fix = "Save the model as it is before its adapters, and train that folder, for a reference that has it, too."
        porting.find(trainer.rule, "error", message, fix, trainer.line, trainer.column)


def _is_free(porting: Porting, kind: str) -> bool:
    """Whether the loss needs no reference, or takes the model itself before its first step."""
    if kind in PAIRS:
        return bool(porting.known("loss.precompute", False))
    return porting.known("loss.beta") == 0


def _has_adapters(porting: Porting) -> bool:
    """Whether adapters are trained for certain: the reference is the model without them."""
    return porting.inject is not None or porting.lora is not None or porting.lora_certain


def _done(porting: Porting) -> list[str]:
    """What was done to the model since it was loaded."""
    done = ["the adapter that is merged in"] if is_merged_into(porting) else []
    done += [TRAINED] if was_trained(porting) else []
    if any(use.chain.removeprefix("model.") == RESIZES for use in role_uses(porting, "model")):
        done.append("the new size of the vocabulary")
    return done

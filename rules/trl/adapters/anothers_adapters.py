"""A model that an earlier trainer has put adapters into: PEFT does that in place, and the script's name has them, too.

    SFTTrainer(model, peft_config=LoraConfig(), ...).train()
    GRPOTrainer(model, ...).train()

The second trainer trains those adapters without knowing of them: it is given the model and not the PeftModel around it.
"""

from __future__ import annotations

from porter.packs.api import Phase, Porting, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import has_anothers_adapters, puts_in_twice, short_name, when_quantised

PART_OF = "trl"
REFUSES = (4, 36)  # transformers' Trainer refuses a quantised model that isn't a PeftModel


@step(Phase.WRITE, of="trainer", fills=("said",))
def say_anothers_adapters(porting: Porting) -> None:
    """What the second trainer makes of them, and what it saves."""
    trainer = porting.trainer
    if trainer is None:
        return
    name = short_name(trainer)
    if puts_in_twice(porting):
        message = (
            f"{name} puts adapters into a model that has those of the trainer before: PEFT gives the layers new ones "
        )
        message += "of the same name, what was learned is lost, and those of other layers stay. The port ends there."
        fix = "Merge the first into the model before, or leave this peft_config out to train them on."
        porting.find(trainer.rule, "error", message, fix, trainer.line, trainer.column)
        return
    if not has_anothers_adapters(porting):
        return
    release = plain_version(porting.versions.get("transformers", ""))
    if when_quantised(porting) is not False and version_key(release or "99") >= REFUSES:
        when = "" if when_quantised(porting) else " where the script quantises it"
        message = f"{name} gets a quantised model{when} and not the PeftModel around it: transformers refuses to train "
        message += "that, and the GPU run ends. The port trains the adapters of the trainer before."
        fix = "Give it the PeftModel on both sides: make it by get_peft_model before the first trainer."
        porting.find(trainer.rule, "warning", message, fix, trainer.line, trainer.column)
        return
    message = (
        f"{name} trains the adapters that the trainer before has put into the model, and takes it for a whole model: "
    )
    message += (
        "what it saves names the layers as PEFT does (q_proj.base_layer.weight), and from_pretrained reads neither "
    )
    message += "base nor adapters of that. The port saves the adapter."
    fix = "Make the PeftModel by get_peft_model before the first trainer, and give it to both."
    porting.find(trainer.rule, "warning", message, fix, trainer.line, trainer.column)

"""Adapters that TRL 0.20 to 0.23.0 freeze: those of a model that has them already, over a quantised base.

model = get_peft_model(prepare_model_for_kbit_training(model), LoraConfig(r=8))
trainer = SFTTrainer(model, ...)

The trainer prepares the model for quantised training once more, which freezes every weight, the adapters too. The GPU
run ends well and has trained nothing. From 0.23.1 on a model with adapters is left as it is, and so it was before 0.20.
"""

from __future__ import annotations

from porter.packs.api import Phase, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, when_quantised

PART_OF = "trl"
FREEZES = {
    "SFTTrainer": ((0, 20, 0), (0, 23, 1)),
    "GRPOTrainer": ((0, 22, 0), (0, 23, 1)),
    "RLOOTrainer": ((0, 22, 0), (0, 23, 1)),
}
PLACE = "model.quantization"


@step(Phase.READ, of="trainer", reads=("model", "loads", "inject", PLACE))
def say_frozen_adapters(porting: Training) -> None:
    """A warning where the GPU run trains nothing, and the port does."""
    quantised, trainer = when_quantised(porting), porting.trainer
    if quantised is False or trainer is None or not trainer.qualified.startswith("trl."):
        return
    name, release = trainer.qualified.rpartition(".")[2], plain_version(porting.versions.get("trl", ""))
    if name not in FREEZES or not release or "unsloth" in porting.module.roots:
        return
    since, until = FREEZES[name]
    given = trainer.argument("peft_config")
    if not since <= version_key(release) < until or not porting.of_role("inject"):
        return
    if given is not None and not given.value.is_literal(None):
        return
    when = "" if quantised else " where the script quantises the base"
    message = f"TRL {release} freezes the adapters that a model has already{when}, as it prepares a quantised base: "
    message += "the GPU run trains nothing, and says no word. The port trains them."
    fix = "Give the trainer peft_config= and the bare model, or run the source with TRL 0.23.1 or later."
    porting.find(trainer.rule, "warning", message, fix, trainer.line, trainer.column)

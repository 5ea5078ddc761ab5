"""Trainers that seed torch before they put adapters in: the config's seed draws these, whatever the script has seeded.

From TRL 1.15 on `SFTTrainer.__init__` and its like begin with `set_seed(args.seed)`, RewardTrainer's from 0.27.1 on.
Before that the adapters are drawn by what the script has given torch.
"""

from __future__ import annotations

from porter.packs.api import Phase, Value, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training

PART_OF = "trl"
SINCE = {"RewardTrainer": (0, 27, 1)}
OTHERS = (1, 15, 0)


@step(Phase.READ, of="trainer", fills=("lora.seeded_by",))
def read_own_seed(porting: Training) -> None:
    """Note that the trainer's own seed draws the adapters that it puts in."""
    trainer = porting.trainer
    if trainer is None or not trainer.qualified.startswith("trl."):
        return
    release = plain_version(porting.versions.get("trl", ""))
    if release and version_key(release) >= SINCE.get(trainer.qualified.rpartition(".")[2], OTHERS):
        porting.fill({"lora.seeded_by": Value("literal", repr("trainer"))})

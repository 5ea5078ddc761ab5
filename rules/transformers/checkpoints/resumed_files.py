"""Files of weights that a script looks for in the checkpoint it resumes from, as the alpaca-lora line does:

    checkpoint_name = os.path.join(resume_from_checkpoint, "pytorch_model.bin")
    if not os.path.exists(checkpoint_name):
        checkpoint_name = os.path.join(resume_from_checkpoint, "adapter_model.bin")
        resume_from_checkpoint = False

The port's checkpoints are Orbax's and hold neither, so that the script says that nothing was found.
"""

from __future__ import annotations

import re

from porter.packs.api import Phase, Porting, step

PART_OF = "TP314"

FILES = re.compile(r"(?:pytorch_model|adapter_model|model)\.(?:bin|safetensors)")
FIX = "Leave the name as it is where it is one of the port's: the trainer resumes from it. A folder of PEFT's is read."


@step(Phase.NAME, of="trainer", reads=("resumes",))
def say_resumed_files(porting: Porting) -> None:
    """A warning at the first file that is looked for in what train() resumes from."""
    names = set(re.findall(r"\w+(?:\.\w+)*", porting.resumes))
    if not names:
        return
    module = porting.module
    for call in module.calls:
        parts = [module.code(argument.value) for argument in call.args]
        if len(parts) < 2 or parts[0] not in names or not module.code(call.func).endswith("join"):
            continue
        file = parts[1].strip("\"'")
        if FILES.fullmatch(file):
            message = f"{file}: the port's checkpoints are Orbax's and hold none, so {parts[0]} isn't found in one."
            porting.find(PART_OF, "warning", message, FIX, *module.location(call))
            return

"""`logging_dir` since transformers 5.0: it is taken with a warning, and TensorBoard's files lie elsewhere."""

from __future__ import annotations

from porter.packs.api import Phase, is_before, step
from porter.packs.training import Training

PART_OF = "transformers"
IGNORED_SINCE = "5.0"  # integration_utils.py reads TENSORBOARD_LOGGING_DIR, else makes output_dir/runs/<day and host>


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_tensorboard_folder(porting: Training) -> None:
    """A reason at the keyword: the port writes where it says, the GPU run didn't."""
    if is_before(porting, "transformers", IGNORED_SINCE):
        return
    porting.add_reason(
        ".logging_dir",
        "transformers from 5.0 on takes no notice of it and writes to output_dir/runs, the port where it says",
    )

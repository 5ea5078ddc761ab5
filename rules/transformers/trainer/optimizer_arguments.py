"""`optim_args=` of optimizers that read none in the release that the script was written for.

What it does: the port's optimizer gets none of them then, and the keyword says so. Of an optimizer that only the run
knows it gets them with the release (`rt.hf_optimizer(..., transformers="4.51.3")`), which tells whether they are read.
Why: before transformers 5.3 the Trainer made PyTorch's SGD, RMSprop and Adagrad without them, so that
`optim="sgd", optim_args="momentum=0.9"` trained without momentum. Its AdamW, Lion and Adafactor read none at all.
"""

from __future__ import annotations

from porter.packs.api import Phase, Porting, Value, is_before, step
from porter.packs.script import plain_version, release_of
from porter.packs.training import Training

PART_OF = "transformers"
PLACE = "optimizer.args"
READ_SINCE = "5.3.0"  # in 5.2's trainer_optimizer.py as in trainer.py before it, none of these three reads them
OF_TORCH = frozenset({"sgd", "rmsprop", "adagrad"})
READ_NONE = ("adamw", "paged_adamw", "adafactor", "lion", "paged_lion")
BUT = ("adamw_anyprecision", "adamw_torch_4bit", "adamw_torch_8bit")  # which read some, none of them in optax


@step(Phase.READ, of="trainer", reads=("script values", "arguments_object", "optimizer.name"), fills=(PLACE,))
def read_optimizer_arguments(porting: Training) -> None:
    """None where the release, or the optimizer, reads none of them."""
    given, name = porting.value(PLACE), porting.value("optimizer.name")
    if given is None or given.is_literal(None) or name is None:
        return
    named = str(name.literal) if name.known else ""
    if not named and is_before(porting, "transformers", READ_SINCE):
        reason = f"transformers before {READ_SINCE} makes PyTorch's sgd, rmsprop and adagrad without optim_args, and "
        porting.change_fate(".optim_args", reason=f"{reason}so does the port where the run asks for one of them")
        return
    if named in OF_TORCH and is_before(porting, "transformers", READ_SINCE):
        reason = f"transformers before {READ_SINCE} makes optim={named!r} without optim_args; "
        reason += "the GPU run trained without them"
    elif named.startswith(READ_NONE) and named not in BUT:
        reason = f"transformers' optim={named!r} reads no optim_args"
    else:
        return
    porting.change_fate(".optim_args", fate="dropped", target="", reason=reason)
    porting.fill({PLACE: Value("default", "None")})


@step(Phase.WRITE, of="trainer", fills=("parts",))
def write_optimizer_release(porting: Porting) -> None:
    """The release, of which the port asks whether an optimizer that only the run knows reads any."""
    name = porting.value("optimizer.name")
    if name is not None and not name.known and is_before(porting, "transformers", READ_SINCE):
        known = plain_version(porting.versions.get("transformers", "")) or release_of(porting, "transformers")
        porting.code["optimizer_release"] = str(known)

"""`optim_args=` of optimizers that read none in the release that the script was written for.

What it does: the port's optimizer gets none of them then, and the keyword says so. Of an optimizer that only the run
knows it gets them with the release (`rt.hf_optimizer(..., transformers="4.51.3")`), which tells whether they are read.
Why: before transformers 5.3 the Trainer made PyTorch's SGD, RMSprop and Adagrad without them, so that
`optim="sgd", optim_args="momentum=0.9"` trained without momentum. Its AdamW, Lion and Adafactor read none at all.
"""

from __future__ import annotations

from porter.packs.api import Phase, Porting, Value, is_before, step
from porter.packs.runtime import OPTIM_ARGS_SINCE, reads_optim_args
from porter.packs.script import plain_version, release_of
from porter.packs.training import Training

PART_OF = "transformers"
PLACE = "optimizer.args"


@step(Phase.READ, of="trainer", reads=("script values", "arguments_object", "optimizer.name"), fills=(PLACE,))
def read_optimizer_arguments(porting: Training) -> None:
    """None where the release, or the optimizer, reads none of them."""
    given, name = porting.value(PLACE), porting.value("optimizer.name")
    if given is None or given.is_literal(None) or name is None:
        return
    named, older = str(name.literal) if name.known else "", is_before(porting, "transformers", OPTIM_ARGS_SINCE)
    if not named and older:
        reason = f"transformers before {OPTIM_ARGS_SINCE} makes PyTorch's sgd, rmsprop and adagrad without optim_args, "
        porting.change_fate(".optim_args", reason=f"{reason}and so does the port where the run asks for one of them")
        return
    if not named or reads_optim_args(named, "0" if older else None):
        return
    if reads_optim_args(named, None):
        reason = f"transformers before {OPTIM_ARGS_SINCE} makes optim={named!r} without optim_args; "
        reason += "the GPU run trained without them"
    else:
        reason = f"transformers' optim={named!r} reads no optim_args"
    porting.change_fate(".optim_args", fate="dropped", target="", reason=reason)
    porting.fill({PLACE: Value("default", "None")})


@step(Phase.WRITE, of="trainer", fills=("parts",))
def write_optimizer_release(porting: Porting) -> None:
    """The release, of which the port asks whether an optimizer that only the run knows reads any."""
    name = porting.value("optimizer.name")
    if name is not None and not name.known and is_before(porting, "transformers", OPTIM_ARGS_SINCE):
        known = plain_version(porting.versions.get("transformers", "")) or release_of(porting, "transformers")
        porting.code["optimizer_release"] = str(known)

"""What releases did beside rows and steps: types of models, orders of rows, optimizers' arguments, names of runs."""

from __future__ import annotations

from ..field_tables import version_key

ASKS_FOR_SEEDS = (4, 38, 0)  # transformers' first release whose Trainer asks accelerate for a seeded order
# transformers' first release that gives PyTorch's optimizers `optim_args`: in 5.2's trainer_optimizer.py, as in
# trainer.py before it, none of these three reads them.
OPTIM_ARGS_SINCE, OF_TORCH = "5.3.0", ("sgd", "rmsprop", "adagrad")
# Optimizers whose names begin so read none in any release, but for these.
TAKE_NONE = ("adamw", "paged_adamw", "adafactor", "lion", "paged_lion")
TAKE_SOME = ("adamw_anyprecision", "adamw_torch_4bit", "adamw_torch_8bit")
# transformers' first release whose AutoHfQuantizer asks for load_in_8bit alone, and takes what isn't for 4 bits.
UNASKED_SINCE = (4, 38, 0)


def fills_type(trl: str | None, *, left_alone: bool) -> str:
    """The `dtype` that TRL `trl` (None: the newest) gives from_pretrained where `model_init_kwargs` have none.

    Transformers from 4.56 on prefers `dtype` to the older `torch_dtype` of the same call.
    `left_alone`: by a trainer that isn't TRL's common way to load, ORPOTrainer and CPOTrainer. "" where none is.
    """
    release = version_key(trl) if trl else None
    if left_alone:
        return "auto" if release is None or release >= (0, 26) else ""
    return "float32" if release is None or release >= (0, 27) else ""


def shuffling_of(transformers: str, accelerate: str, processes: int = 1) -> str:
    """How these releases drew the random order of an epoch's rows in so many processes: a `shuffling` of
    `batches.order`, `seeded` as today, `drawn`, `summed`, `zero` or `shared`.

    As each accelerate's `prepare_data_loader` did when it was run on one and on two processes. accelerate 0.25 always
    seeded; its sum of seeds lasted to 0.26, and until 0.29 nothing seeded several processes.
    """
    release = version_key(accelerate)
    if version_key(transformers) >= ASKS_FOR_SEEDS:
        if release < (0, 27, 0):
            return "summed"
        return "drawn" if processes > 1 and release < (0, 29, 0) else "seeded"
    if (0, 25, 0) <= release < (0, 26, 0):
        return "summed"
    if processes == 1 or (0, 26, 0) <= release < (0, 30, 0):
        return "drawn"
    return "zero" if (0, 24, 0) <= release < (0, 25, 0) else "shared"


def reads_optim_args(optimizer: str, transformers: str | None) -> bool:
    """Whether the Trainer of transformers (None: of today's) gives the optimizer of that name its `optim_args`."""
    if optimizer in OF_TORCH:
        return transformers is None or version_key(transformers) >= version_key(OPTIM_ARGS_SINCE)
    return optimizer in TAKE_SOME or not optimizer.startswith(TAKE_NONE)


def names_runs(transformers: str | None) -> bool:
    """Whether W&B had the output_dir as the name of a run without one (transformers 4.41 to 4.54)."""
    return bool(transformers) and (4, 41, 0) <= version_key(transformers or "") < (4, 55, 0)


def quantises_unasked(transformers: str | None) -> bool:
    """Whether a BitsAndBytesConfig with neither flag held a model in 4 bits in that release (None: the newest)."""
    return transformers is None or version_key(transformers) >= UNASKED_SINCE

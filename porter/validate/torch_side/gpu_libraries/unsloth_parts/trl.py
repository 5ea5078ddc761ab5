"""What importing Unsloth does to TRL: configs with other defaults, an SFTTrainer that makes rows in another way.

Unsloth puts classes of its own into `trl`; a class that a script imported before stays TRL's, here as there.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib
import inspect
import os
import sys
from ast import literal_eval
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .....runtime.facts.field_tables import version_key
from .....runtime.settings import unsloth_defaults
from .....runtime.settings.post_init import OF_TRL
from .....source.project.pins import pins_of_project
from .grpo import with_own_loss
from .newer_transformers import without_hub_token, without_versions

OLDER_KEYWORDS = (
    *("dataset_text_field", "max_seq_length", "packing", "dataset_num_proc", "dataset_kwargs", "dataset_batch_size"),
    *("eval_packing", "neftune_noise_alpha", "num_of_sequences", "chars_per_token", "model_init_kwargs"),
)
PATCHES_SINCE = (2025, 2, 5)  # the first release that writes TRL's classes anew
COUNTS_SINCE = (2024, 10, 2)  # the first that counts a step's tokens
# Between these a row's first character alone is looked at for a BOS (unsloth_zoo 2025.3.17 to 2026.8.1), else its text.
LOOKS_AT_CHARACTERS, LOOKS_AT_TEXTS = (2025, 3, 19), (2026, 8, 2)
LEAVES_WHOLE = (2025, 3, 4)  # its first release whose preparation of rows replaces that of TRL
# The first release that loses SFTTrainer's older keywords beside `args`; that sets them on a config; on any arguments.
LOSES_SINCE, SETS_SINCE, KEEPS_SINCE = (2025, 5, 8), (2026, 8, 13), (2026, 10, 8)
TAKING_SETTINGS = ("DPO", "KTO", "ORPO", "CPO")
CUT = 1024  # TRL's max_length and max_seq_length where nothing is said


_told = ""  # the release that porting reads of the source
_day = ""  # of its last commit


def tell_release(release: str, day: str = "") -> None:
    """Stand in for the release that porting reads of the source; for "" what its project and its TRL tell counts, and
    the day after which none was out."""
    global _told, _day
    _told, _day = release, day


def release() -> str:
    """The release that stands in: what the source names, else the newest beside the TRL that is installed, and no newer
    than the source's last commit."""
    script = Path(sys.argv[0])
    named = _named(script)
    if named is not None:
        return named
    try:
        beside = unsloth_defaults.unsloth_beside(version("trl"), of_its_day=not _pins(script, "trl"))
    except PackageNotFoundError:
        beside = unsloth_defaults.newest_unsloth()
    of_its_day = unsloth_defaults.unsloth_on(datetime.date.fromisoformat(_day)) if _day else None
    return min(beside, of_its_day or beside, key=version_key)


def _named(script: Path) -> str | None:
    return _told or _named_beside(script)


@functools.cache
def _named_beside(script: Path) -> str | None:
    exact = [pin for pins in _pins(script, "unsloth") for sign, pin in pins if sign.startswith("==")]
    return exact[0] if exact else None


def _pins(script: Path, library: str) -> list[list[tuple[str, str]]]:
    text = script.read_text("utf-8", errors="replace") if script.is_file() else ""
    return [pins for _, pins in pins_of_project(script, text, library)]


def loses_keywords(args: Any) -> bool:
    """Whether the release loses what SFTTrainer is given beside `args`; one that nobody names does what is written."""
    import trl

    if args is None or _named(Path(sys.argv[0])) is None:
        return False
    return LOSES_SINCE <= version_key(release()) < (SETS_SINCE if isinstance(args, trl.SFTConfig) else KEEPS_SINCE)


def counts_tokens() -> bool:
    """Whether that release counts the tokens of a step."""
    return version_key(release()) >= COUNTS_SINCE


def patch_trl(note: Callable[[str], None]) -> None:
    """Put the classes with Unsloth's defaults into trl, from now on."""
    try:
        import transformers
        import trl

        without_versions(vars(importlib.import_module("trl.import_utils")))
        trl.SFTTrainer  # noqa: B018 - loaded when it is looked up
    except (ImportError, RuntimeError):  # the script meets it itself, with its own line
        return
    if version_key(release()) < PATCHES_SINCE:
        return
    for name in OF_TRL:
        original = getattr(trl, name, None)
        if original is not None and not hasattr(original, "_unsloth"):
            _replace(trl, name, original, with_defaults(original, transformers.__version__))
    original = getattr(trl, "SFTTrainer", None)
    if original is not None and not hasattr(original, "_unsloth"):
        _replace(trl, "SFTTrainer", original, of_unsloth(original, note))
    original = getattr(trl, "GRPOTrainer", None)
    if original is not None and not hasattr(original, "_unsloth"):
        _replace(trl, "GRPOTrainer", original, with_own_loss(original, release(), note))
    for kind in TAKING_SETTINGS:
        trainer = getattr(trl, f"{kind}Trainer", None)
        if trainer is not None and hasattr(trl, f"{kind}Config") and "_unsloth" not in vars(trainer):
            trainer._unsloth, trainer.__init__ = True, taking_settings(trainer.__init__, f"{kind}Config")


def taking_settings(init: Callable[..., None], config: str) -> Callable[..., None]:
    """A trainer's `__init__` that takes fields of its config as keywords, as older trainers did, and sets them."""

    @functools.wraps(init)
    def __init__(self: Any, *positional: Any, **kwargs: Any) -> None:
        import transformers
        import trl

        taken, asked = inspect.signature(init).parameters, kwargs.get("args")
        if "processing_class" in taken and "tokenizer" in kwargs:
            kwargs["processing_class"] = kwargs.pop("tokenizer")
        made = getattr(trl, config)
        known = {field.name for field in dataclasses.fields(made) if field.init}
        moved = {name: kwargs.pop(name) for name in list(kwargs) if name not in taken and name in known}
        if moved and isinstance(asked, transformers.TrainingArguments):
            if not hasattr(asked, next(iter(moved))):  # plain arguments: TRL makes its own of them
                given = {**asked.to_dict(), "hub_token": asked.hub_token}
                kwargs["args"] = asked = made(**{name: value for name, value in given.items() if name in known})
            for name, value in moved.items():
                setattr(asked, name, value)
        pad_on_the_right(kwargs.get("processing_class"))
        init(self, *positional, **kwargs)

    return __init__


def pad_on_the_right(tokenizer: Any) -> None:
    """Unsloth's trainers set the side of the tokenizer that they are given."""
    if hasattr(tokenizer, "padding_side"):
        tokenizer.padding_side = "right"


def _replace(trl: Any, name: str, original: Any, made: Any) -> None:
    """In `trl` and `trl.trainer`, where scripts find it; the modules that define it keep theirs."""
    for module in (trl, sys.modules.get("trl.trainer")):
        if module is not None and getattr(module, name, None) is original:
            setattr(module, name, made)


def with_defaults(original: Any, transformers: str) -> Any:
    """A dataclass like `original` with Unsloth's defaults of that name."""
    fields = {field.name: field for field in dataclasses.fields(original)}
    found = []
    for name, text in unsloth_defaults.unsloth_defaults(original.__name__, release(), transformers).items():
        if name in fields:
            field = fields[name]
            again = dataclasses.field(default=literal_eval(text), metadata=field.metadata)
            found.append((name, field.type, again))
    if "max_seq_length" not in fields:
        found.append(("max_seq_length", Any, dataclasses.field(default=None)))
    namespace: dict[str, Any] = {"_unsloth": True, "__module__": "trl", "__doc__": original.__doc__}
    namespace["__post_init__"] = _saving_nothing_unasked(original.__post_init__)
    if "num_generations" in fields:
        namespace["__post_init__"] = _raising_the_batch(namespace["__post_init__"])
    return dataclasses.make_dataclass(original.__name__, found, bases=(original,), namespace=namespace)


def _saving_nothing_unasked(original: Any) -> Any:
    """A `__post_init__` before which a config that says nothing of saving saves no checkpoints."""

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        strategy = getattr(self.save_strategy, "value", self.save_strategy)
        if self.output_dir is None and (strategy, self.save_steps) == ("steps", 500):
            self.output_dir, self.save_strategy = "unsloth_training_checkpoints", "no"
        original(self)

    return post_init


def _raising_the_batch(original: Any) -> Any:
    """A `__post_init__` before which the batch becomes num_generations where those don't divide a step's completions.

    Newer releases leave it alone where the script says how much is sampled at once.
    """

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        said = (getattr(self, name, None) for name in ("steps_per_generation", "generation_batch_size"))
        generations = self.num_generations
        if generations and all(value is None for value in said):
            processes = int(os.environ.get("WORLD_SIZE", "1"))
            if self.per_device_train_batch_size * self.gradient_accumulation_steps * processes % generations:
                self.per_device_train_batch_size = generations
        original(self)

    return post_init


def of_unsloth(original: Any, note: Callable[[str], None]) -> Any:
    """TRL's SFTTrainer that gets tokens: Unsloth's tokenisation of texts, cut at the model's max_seq_length."""

    class SFTTrainer(original):
        _unsloth = True

        def __init__(self, model: Any = None, args: Any = None, *positional: Any, **kwargs: Any) -> None:
            lost = loses_keywords(args)
            if lost:
                taken = inspect.signature(original.__init__).parameters
                kwargs = {name: value for name, value in kwargs.items() if name in taken or name not in OLDER_KEYWORDS}
            of_trl = lost and not hasattr(args, "max_length")  # plain arguments, of which TRL makes its own
            args = with_older_keywords(original, args, kwargs)
            tokenizer = kwargs.get("processing_class") or kwargs.get("tokenizer")
            pad_on_the_right(tokenizer)
            length = CUT if of_trl else length_of(model, args, kwargs)
            field = kwargs.get("dataset_text_field") or getattr(args, "dataset_text_field", None) or "text"
            packs = getattr(args, "packing", False) or kwargs.get("packing", False)
            done = False
            for name in ("train_dataset", "eval_dataset"):
                rows = kwargs.get(name)
                if rows is None or isinstance(rows, dict) or tokenizer is None:
                    continue
                made = tokenised(rows, tokenizer, None if packs else length, field, kwargs.get("formatting_func"))
                made = with_masks(made) if wants_masks() else made
                done = done or made is not rows
                kwargs[name] = made
            if done:
                kwargs.pop("formatting_func", None)
                note("texts were tokenised as Unsloth's SFTTrainer does, as far as tpu-port's reading of it goes")
            whole = not packs and leaves_whole(kwargs.get("train_dataset"))
            for name in ("max_length", "max_seq_length"):
                if hasattr(args, name) and length is not None:
                    setattr(args, name, None if whole and not done else length)
            evaluate_by_training(args)
            kwargs = with_labels(kwargs, tokenizer)
            super().__init__(model, without_hub_token(args), *positional, **kwargs)

    # transformers and TRL read which keywords a trainer takes.
    SFTTrainer.__signature__ = inspect.signature(original)
    SFTTrainer.__module__, SFTTrainer.__qualname__ = "trl", original.__qualname__
    return SFTTrainer


def with_labels(kwargs: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """A trainer's keywords with a collator that makes labels where the script's makes none, and the rows have none."""
    import transformers

    columns = getattr(kwargs.get("train_dataset"), "column_names", None) or ()
    makes_none = isinstance(kwargs.get("data_collator"), transformers.DataCollatorForSeq2Seq)
    if tokenizer is None or not makes_none or "labels" in columns:
        return kwargs
    return {**kwargs, "data_collator": transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)}


def evaluate_by_training(args: Any) -> None:
    """An evaluation by 8 goes by the training's batch where that is smaller, as in Unsloth's trainers."""
    own = str(getattr(getattr(args, "eval_strategy", None), "value", getattr(args, "eval_strategy", "no")))
    size = getattr(args, "per_device_eval_batch_size", None)
    if own != "no" and size == 8 and args.per_device_train_batch_size < size:
        args.per_device_eval_batch_size = args.per_device_train_batch_size


def with_older_keywords(original: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The arguments with what older SFTTrainers took as keywords, which `kwargs` loses: Unsloth takes all."""
    import trl

    taken = inspect.signature(original.__init__).parameters
    if "tokenizer" in kwargs and "tokenizer" not in taken:
        kwargs["processing_class"] = kwargs.pop("tokenizer")
    older = {name: kwargs.pop(name) for name in OLDER_KEYWORDS if name in kwargs and name not in taken}
    if not older:
        return args
    known = {field.name for field in dataclasses.fields(trl.SFTConfig) if field.init}
    if args is not None and not known <= {field.name for field in dataclasses.fields(args)}:
        given = {**args.to_dict(), "hub_token": args.hub_token}  # as TRL made one of the other
        args = trl.SFTConfig(**{name: value for name, value in given.items() if name in known})
    args = args if args is not None else trl.SFTConfig()
    for name, value in older.items():
        today = name if hasattr(args, name) else {"max_seq_length": "max_length"}.get(name, name)
        if hasattr(args, today):
            setattr(args, today, value)
    return args


def tokenised(rows: Any, tokenizer: Any, length: int | None, field: str, formatting: Any) -> Any:
    """The texts' tokens as `sft_prepare_dataset` of unsloth_zoo makes them: no end token, and a BOS unless it is there.

    Rows that are tokens already, or a prompt and a completion, stay as they are. Written apart from the port's
    `runtime.rows.sft.unsloth_rows`, which it is to be compared with.
    """
    first = next(iter(rows))
    if {"input_ids", "labels"} & set(first) or {"prompt", "completion"} <= set(first):
        return rows
    if field not in first and formatting is None:
        raise ValueError(f"Unsloth: You must specify a `formatting_func`: the rows have no column {field!r}")
    if field in first:
        formatting = None
    text = first[field] if formatting is None else formatting(first)
    if formatting is not None and not isinstance(text, list):
        raise ValueError("Unsloth: The `formatting_func` should return a list of processed strings.")
    if formatting is not None:
        text = text[0]
    elif not looks_at_texts():
        text = text[:1]
    start = tokenizer.bos_token
    doubled = start is not None and (text.startswith(start) or start in (tokenizer.chat_template or ""))

    def tokens(batch: Any) -> dict[str, Any]:
        texts = batch[field] if formatting is None else formatting(batch)
        cut = {} if length is None else {"truncation": True, "max_length": length}
        return {"input_ids": tokenizer(texts, add_special_tokens=not doubled, **cut)["input_ids"]}

    return rows.map(tokens, batched=True, remove_columns=list(first))


def leaves_whole(rows: Any) -> bool:
    """Whether rows are tokens already, which Unsloth cuts at no length beside TRL before 1.0."""
    import trl

    names = getattr(rows, "column_names", None) or ()
    replaced = version_key(release()) >= LEAVES_WHOLE and (0, 15) <= version_key(trl.__version__) < (1,)
    return replaced and bool({"input_ids", "labels"} & set(names))


def looks_at_texts() -> bool:
    return not LOOKS_AT_CHARACTERS <= version_key(release()) < LOOKS_AT_TEXTS


def wants_masks() -> bool:
    """Whether TRL cuts the masks of rows that are tokens already, as 0.15 does."""
    import trl

    return (0, 15) <= version_key(trl.__version__)[:2] < (0, 16)


def with_masks(rows: Any) -> Any:
    """Rows of tokens with a mask of ones where they have none."""
    if {"input_ids", "attention_mask"} & set(next(iter(rows))) != {"input_ids"}:
        return rows
    return rows.map(lambda row: {"attention_mask": [1] * len(row["input_ids"])})


def length_of(model: Any, args: Any, kwargs: dict[str, Any]) -> int | None:
    """Where Unsloth cuts rows: at the model's max_seq_length, or at a shorter one of the trainer or the config; at the
    config's max_length where nothing else is known."""
    of_model = getattr(model, "max_seq_length", None)
    for said in (kwargs.get("max_seq_length"), getattr(args, "max_seq_length", None)):
        if said is not None and (said != CUT or not hasattr(model, "max_seq_length")):
            return int(said) if of_model is None else min(int(said), int(of_model))
    if of_model is not None:
        return int(of_model)
    own = getattr(args, "max_length", CUT)
    return None if own is None else int(own)


def trainers() -> dict[str, Any]:
    """UnslothTrainer and its arguments: a learning rate of its own for the embedding and the head."""
    try:
        import trl
    except ImportError:
        return {}
    import transformers

    config: Any = getattr(trl, "SFTConfig", transformers.TrainingArguments)  # TRL has it from 0.9 on

    class UnslothTrainingArguments(config):
        def __init__(self, *args: Any, embedding_learning_rate: float | None = None, **kwargs: Any) -> None:
            self.embedding_learning_rate = embedding_learning_rate
            super().__init__(*args, **kwargs)

    class UnslothTrainer(trl.SFTTrainer):
        def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
            rate = getattr(self.args, "embedding_learning_rate", None)
            made = super().create_optimizer(*args, **kwargs)
            return made if rate is None else split_off_embeddings(self.model, made, rate)

    return {"UnslothTrainer": UnslothTrainer, "UnslothTrainingArguments": UnslothTrainingArguments}


def split_off_embeddings(model: Any, optimizer: Any, rate: float) -> Any:
    """Put the weights of `modules_to_save` into a group of their own, with learning rate `rate`."""
    whole = {id(weight) for name, weight in model.named_parameters() if name.endswith("modules_to_save.default.weight")}
    for group in list(optimizer.param_groups):
        inside = [weight for weight in group["params"] if id(weight) in whole]
        if inside:
            group["params"] = [weight for weight in group["params"] if id(weight) not in whole]
            others = {name: value for name, value in group.items() if name != "params"}
            optimizer.add_param_group({**others, "params": inside, "lr": rate, "initial_lr": rate})
    return optimizer

"""The libraries' loading and saving, in this process: they load what `Substitutes` answers, and save where it says.

Nothing here imports torch or JAX.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ...runtime.facts.stored_formats import base_name
from ..observing.spelling import by_place
from .data.columns import rows_of_a_step
from .data.drawn import patch_draws
from .data.healing import patch_datasets, rows_needed, there
from .data.missing_files import patch_files
from .data.plan import LISTS
from .dataset_questions import patch_dataset_questions
from .models.missing_weights import stand_in_weights
from .models.token_numbers import take_numbers
from .substitutes import Substitutes

# Each has a from_pretrained of its own, copied from their base class.
AUTO_MODELS = ("AutoModel", "AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForSequenceClassification")
NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


def patch_loaders(substitutes: Substitutes) -> None:
    """Make datasets and the torch-free classes of transformers load substitutes, in this process."""
    import datasets

    load = substitutes.load_dataset(datasets.load_dataset)
    datasets.load_dataset = load
    sys.modules["datasets.load"].load_dataset = load  # type: ignore[attr-defined]
    patch_dataset_questions(substitutes, load)
    from_disk = substitutes.read_dataset(datasets.load_from_disk)
    datasets.load_from_disk = from_disk
    sys.modules["datasets.load"].load_from_disk = from_disk  # type: ignore[attr-defined]
    for cls in (datasets.Dataset, datasets.DatasetDict):
        for name in ("load_from_disk", "from_json", "from_csv", "from_parquet", "from_text"):
            setattr(cls, name, staticmethod(substitutes.read_dataset(getattr(cls, name))))
    cut_selections()
    settings = substitutes.settings
    lists = LISTS in settings.columns
    if lists:
        substitutes.note("columns of datasets were lists, as before datasets 4: the script uses one as a list")
    patch_datasets(rows_needed(settings.steps, rows_of_a_step(settings.sources)), lists)
    patch_files(substitutes.missing)
    patch_draws(lambda: bool(substitutes.missing.plan.entries), substitutes.note)
    stand_in_weights(substitutes)

    import transformers

    config = getattr(transformers, "PreTrainedConfig", None) or transformers.PretrainedConfig  # before 5.0
    for cls in (
        transformers.AutoTokenizer,
        transformers.AutoConfig,
        transformers.AutoProcessor,
        transformers.GenerationConfig,
        transformers.PreTrainedTokenizerBase,
        config,
    ):
        patch_from_pretrained(cls, substitutes)
    take_numbers(transformers.PreTrainedTokenizerBase, substitutes.tiny, substitutes.note)
    patch_save_pretrained(transformers.PreTrainedTokenizerBase, substitutes)
    patch_save_pretrained(config, substitutes)


def patch_from_pretrained(
    cls: Any,
    substitutes: Substitutes,
    adjust: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    finish: Callable[[Any], None] | None = None,
) -> None:
    """`cls.from_pretrained(name, ...)` loads `substitutes.model(name)`.

    `adjust` changes its keywords, `finish` what it loaded. A mirror in 4 bits is held as its own config says.
    """
    original = cls.__dict__["from_pretrained"].__func__

    @classmethod  # type: ignore[misc]
    @functools.wraps(original)
    def from_pretrained(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = by_place(original, args, kwargs, 2)
        if len(args) < 2:
            return original(*args, **kwargs)
        klass, name, *args = args  # type: ignore[assignment]
        if kwargs.pop("revision", None) not in (None, "main"):
            substitutes.note("the model's revision was not asked for")
        if adjust is not None:
            is_mirror = base_name(str(name)) != str(name)
            kwargs = adjust({**kwargs, "quantization_config": NF4} if is_mirror else kwargs)
        loaded = original(klass, substitutes.model(str(name)), *args, **kwargs)
        if finish is not None:
            finish(loaded)
        return loaded

    cls.from_pretrained = from_pretrained


def patch_save_pretrained(cls: Any, substitutes: Substitutes) -> None:
    """`object.save_pretrained(folder)` writes below the work folder."""
    original = cls.save_pretrained

    @functools.wraps(original)
    def save_pretrained(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("push_to_hub", None)
        args, kwargs = by_place(original, args, kwargs, 2)
        return original(*args[:1], *map(substitutes.output, args[1:2]), *args[2:], **kwargs)

    cls.save_pretrained = save_pretrained


def patch_adapters(cls: Any, substitutes: Substitutes) -> None:
    """An adapter that the script has saved is loaded from where it went, one that isn't here is made up."""
    original = cls.__dict__["from_pretrained"].__func__

    @classmethod  # type: ignore[misc]
    @functools.wraps(original)
    def from_pretrained(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = by_place(original, args, kwargs, 3)
        base = getattr(args[1], "name_or_path", "") if len(args) > 1 else ""
        found = (substitutes.adapter(name, base, kwargs.get("subfolder")) for name in args[2:3])
        return original(*args[:2], *found, *args[3:], **kwargs)

    cls.from_pretrained = from_pretrained


def cut_selections() -> None:
    """`Dataset.select` leaves out rows that a stand-in doesn't have: scripts select by the size of the real data.

    Where it has none of them, as many of its last rows are selected, a quarter at most: `range(4000, 4200)`.
    """
    from datasets import Dataset

    original = Dataset.select
    if getattr(original, "cut", False):
        return

    @functools.wraps(original)
    def select(self: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, there(indices, len(self)), *args, **kwargs)

    select.cut = True  # type: ignore[attr-defined]
    Dataset.select = select

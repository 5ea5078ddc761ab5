"""What a script asks of a dataset beside its rows: its configurations, splits, columns and builder.

Where the dataset can't be had, the rows that stand in for it answer, as they do when it is loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .substitutes import Substitutes

DEFAULT = "default"  # what a dataset's only configuration is called
UNREACHED = (OSError, ValueError, RuntimeError)


class MadeUpBuilder:
    """A dataset's builder, of which the rows stand in."""

    def __init__(self, path: str, name: str | None, load: Callable[..., Any], info: Any) -> None:
        self.info, self._path, self._name, self._load = info, path, name, load
        self.name = self.dataset_name = path.rpartition("/")[2]
        self.config_id = name or DEFAULT
        self.builder_configs: dict[str, Any] = {}

    def download_and_prepare(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is to be fetched."""

    def as_dataset(self, split: Any = None, **kwargs: Any) -> Any:
        return self._load(self._path, self._name, split=split)

    def as_streaming_dataset(self, split: Any = None, **kwargs: Any) -> Any:
        return self._load(self._path, self._name, split=split, streaming=True)


def patch_dataset_questions(substitutes: Substitutes, load: Callable[..., Any]) -> None:
    """Make the questions of `datasets` about a dataset answer; `load` is `load_dataset` with stand-ins."""
    import datasets

    def splits(path: str, name: str | None) -> dict[str, Any]:
        """The rows of each split. What the script does with them where it loads them tells their columns."""
        substitutes.plan.entry("|".join(part for part in (path, name) if part), substitutes.plan.read_of(path))
        return dict(load(path, name))

    def info(path: str, name: str | None) -> Any:
        parts = splits(path, name)
        sizes = datasets.SplitDict()
        for part, rows in parts.items():
            sizes.add(datasets.SplitInfo(name=part, num_examples=len(rows)))
        features = next(iter(parts.values())).features
        return datasets.DatasetInfo(features=features, splits=sizes, config_name=name or DEFAULT)

    answers: dict[str, Callable[[str, str | None], Any]] = {
        "load_dataset_builder": lambda path, name: MadeUpBuilder(path, name, load, info(path, name)),
        "get_dataset_config_info": info,
        "get_dataset_infos": lambda path, name: {DEFAULT: info(path, None)},
        "get_dataset_config_names": lambda path, name: [DEFAULT],
        "get_dataset_default_config_name": lambda path, name: DEFAULT,
        "get_dataset_split_names": lambda path, name: list(splits(path, name)),
    }
    for asked, answer in answers.items():
        original = getattr(datasets, asked, None)
        if original is not None:  # else datasets is older than the question; its modules keep theirs, which load uses
            setattr(datasets, asked, _answered(original, answer))


def _answered(original: Callable[..., Any], answer: Callable[[str, str | None], Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except UNREACHED:
            given = dict(zip(("path", "name"), args, strict=False)) | kwargs
            name = given.get("name") or given.get("config_name")
            return answer(str(given["path"]), None if name is None else str(name))

    return asked

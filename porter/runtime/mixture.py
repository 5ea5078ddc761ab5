"""TRL's dataset mixtures (`trl.get_dataset`), without TRL."""

from __future__ import annotations

from typing import Any

from datasets import DatasetDict, concatenate_datasets, load_dataset


def get_dataset(mixture: Any) -> DatasetDict:
    """Load and join the datasets of a DatasetMixtureConfig; with `test_split_size` it has a test split.

    Fractions are shares of the mixture: the largest one that repeats no row, first rows first. ValueError for
    fractions given to some datasets only, for streams, and for an empty mixture.
    """
    if mixture.streaming:
        raise ValueError("streaming=True: the number of steps and the GPU run's order need the whole dataset")
    if not mixture.datasets:
        raise ValueError("the mixture names no datasets")
    loaded = []
    for source in mixture.datasets:
        dataset = load_dataset(
            path=source.path,
            name=source.name,
            data_dir=source.data_dir,
            data_files=source.data_files,
            split=source.split,
        )
        loaded.append(dataset if source.columns is None else dataset.select_columns(source.columns))
    fractions: list[Any] = [getattr(source, "fraction", None) for source in mixture.datasets]
    if any(share is not None for share in fractions):
        if None in fractions:
            raise ValueError("`fraction` must be set for all datasets of the mixture or for none")
        shares = [share / sum(fractions) for share in fractions]
        rows = min(len(dataset) / share for dataset, share in zip(loaded, shares, strict=True) if share > 0)
        loaded = [data.select(range(round(share * rows))) for data, share in zip(loaded, shares, strict=True)]
    joined = concatenate_datasets(loaded)
    if mixture.test_split_size is None:
        return DatasetDict({"train": joined})
    return joined.train_test_split(test_size=mixture.test_split_size)

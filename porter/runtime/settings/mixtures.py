"""TRL's dataset mixtures: several datasets as one, named on the command line or in a YAML file."""

from __future__ import annotations

from typing import Any

import datasets


def get_dataset(mixture: Any) -> Any:
    """The datasets of a DatasetMixtureConfig in one, as a DatasetDict with `train` and, where it splits, `test`.

    They follow each other in the order given. With `fraction`s, the first rows of each are taken in these proportions,
    as many as the shortest supply allows. ValueError for no dataset, fractions of some datasets only, and fractions or
    test splits of streams.
    """
    if not mixture.datasets:
        raise ValueError("no dataset is named: pass --dataset_name, or list `datasets` in the YAML file")
    parts = [_load(config, mixture.streaming) for config in mixture.datasets]
    shares = [config.fraction for config in mixture.datasets if config.fraction is not None]
    if shares:
        if len(shares) < len(parts):
            raise ValueError(f"{len(shares)} of {len(parts)} datasets have a fraction: give one to all or to none")
        if mixture.streaming:
            raise ValueError("a fraction needs the dataset's length, which a stream doesn't have: drop streaming")
        parts = _in_proportion(parts, shares)
    combined = datasets.concatenate_datasets(parts)
    if mixture.test_split_size is not None:
        if mixture.streaming:
            raise ValueError("test_split_size can't split a stream, which has no length: drop streaming")
        return combined.train_test_split(test_size=mixture.test_split_size)
    splits = datasets.IterableDatasetDict if mixture.streaming else datasets.DatasetDict
    return splits({"train": combined})


def _load(config: Any, streaming: bool) -> Any:
    dataset = datasets.load_dataset(
        path=config.path,
        name=config.name,
        data_dir=config.data_dir,
        data_files=config.data_files,
        split=config.split,
        streaming=streaming,
    )
    return dataset if config.columns is None else dataset.select_columns(config.columns)


def _in_proportion(parts: list[Any], shares: list[float]) -> list[Any]:
    weights = [share / sum(shares) for share in shares]
    total = min(len(part) / weight for part, weight in zip(parts, weights, strict=True) if weight > 0)
    return [part.select(range(round(weight * total))) for part, weight in zip(parts, weights, strict=True)]

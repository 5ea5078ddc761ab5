"""How long the rows of a dataset are: from a file of numbers, a dataset on disk, or its mean and 99th percentile."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

from ..errors import InputError

NORMAL_P99 = 2.326348  # standard deviations below which 99 % of a normal distribution lie
DRAWN = 10_000
HOW = "a file of numbers, a folder of datasets.save_to_disk with input_ids or length, or mean=922,p99=2553"


def read_lengths(given: str, longest: int) -> list[int]:
    """Tokens of each row, none longer than `longest`, where max_length cuts them off. InputError says what's wrong.

    `mean=M,p99=P` stands for a lognormal distribution with that mean and 99th percentile, from which rows are drawn.
    """
    if match := re.fullmatch(r"mean=([\d.]+),p99=([\d.]+)", given.replace(" ", "")):
        found = lognormal(float(match[1]), float(match[2]))
    else:
        place = Path(given).expanduser()
        if place.is_dir():
            found = _dataset(place)
        elif place.is_file():
            found = _numbers(place)
        else:
            raise InputError(f"--lengths {given}: no such file", fix="give " + HOW)
    if not found or min(found) < 1:
        raise InputError(f"--lengths {given}: expected tokens of a row, 1 and more", fix="give " + HOW)
    return [min(length, longest) for length in found]


def lognormal(mean: float, p99: float, rows: int = DRAWN, seed: int = 0) -> list[int]:
    """Lengths of `rows` rows. InputError for a 99th percentile that no lognormal distribution of that mean has."""
    under = NORMAL_P99**2 - 2 * math.log(p99 / mean) if p99 > mean > 0 else -1.0
    if under < 0:
        raise InputError(f"no lognormal distribution has the mean {mean:g} and the 99th percentile {p99:g}")
    sigma = NORMAL_P99 - math.sqrt(under)
    draw = random.Random(seed)
    return [max(1, round(math.exp(draw.gauss(math.log(mean) - sigma**2 / 2, sigma)))) for _ in range(rows)]


def _numbers(file: Path) -> list[int]:
    text = file.read_text(encoding="utf-8")
    try:
        values = json.loads(text) if text.lstrip().startswith("[") else text.split()
        return [int(value) for value in values]
    except (ValueError, TypeError) as error:
        raise InputError(f"expected the tokens of a row on each line: {error}", file, fix="give " + HOW) from None


def _dataset(folder: Path) -> list[int]:
    import datasets

    try:
        found = datasets.load_from_disk(str(folder))
    except (FileNotFoundError, OSError) as error:
        raise InputError(f"no dataset of datasets.save_to_disk: {error}", folder, fix="give " + HOW) from None
    if isinstance(found, datasets.DatasetDict):
        found = found["train"] if "train" in found else next(iter(found.values()))
    if "length" in found.column_names:
        return [int(length) for length in found["length"]]
    if "input_ids" in found.column_names:
        return [len(ids) for ids in found["input_ids"]]
    raise InputError(f"the dataset has neither input_ids nor length: {', '.join(found.column_names)}", folder)

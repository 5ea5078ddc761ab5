"""The batches of a KTO run on GPUs, for a TPU mesh: single completions, each with one that it is held against."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np

from ..batches.arrays import Batch
from . import preference_rows
from .preference_batches import PreferenceBatches
from .preference_rows import Documents


class KTOBatches(PreferenceBatches):
    """Batches of single completions with a label, token for token those of TRL 1.16's KTOTrainer.

    As `PreferenceBatches`, but each row is followed by the same prompt with the completion of the row before it in its
    batch, which KTO estimates its KL term from; `desirable` (B,) bool is the label. Pairs of chosen and rejected are
    taken apart. `estimate_kl`: False for loss_type="apo_zero_unpaired", whose batches are single rows.
    """

    KIND = "kto"
    whole = True

    def __init__(self, *args: Any, estimate_kl: bool = True, sampling: str = "sequential", **kwargs: Any) -> None:
        if estimate_kl and sampling != "sequential":
            raise ValueError(f"train_sampling_strategy={sampling!r} breaks up the batches of KTO's KL term: sequential")
        self.documents = 2 if estimate_kl else 1
        super().__init__(*args, sampling=sampling, **kwargs)

    def _prepare(self, dataset: Any, per_process: int) -> Documents:
        rotate = per_process if self.documents == 2 else None
        if self._release.shuffles_completions:  # with data_seed; without one in an order that nobody can repeat
            rows = dataset if isinstance(dataset, datasets.Dataset) else datasets.Dataset.from_list(list(dataset))
            dataset = rows.shuffle(seed=self._own_seed)
        return preference_rows.completions(
            dataset,
            self._tokenizer,
            max_length=self._max_length,
            rotate=rotate,
            num_proc=self._num_proc,
            max_prompt_length=self._cut["max_prompt_length"],
            truncation_mode=self._cut["truncation_mode"],
            release=self._release,
        )

    @property
    def _counted(self) -> slice:
        return slice(None, None, self.documents)

    def _kinds(self, rows: Documents, picked: np.ndarray) -> np.ndarray:
        found = np.full((len(picked), self.documents), -1)
        found[:, 0] = ~np.asarray(rows.desirable)[picked]
        return found

    def _empty(self, rows: int, length: int) -> Batch:
        return {**super()._empty(rows, length), "desirable": np.zeros(rows, bool)}

    def _fill(self, batch: Batch, place: int, rows: Documents, row: int, kept: tuple[slice, ...]) -> None:
        super()._fill(batch, place, rows, row, kept)
        batch["desirable"][place * self.documents : (place + 1) * self.documents] = rows.desirable[row]

    @classmethod
    def _own_arguments(cls, training_args: Any) -> dict[str, Any]:
        return {
            "pad_to_multiple_of": training_args.pad_to_multiple_of,
            "max_prompt_length": getattr(training_args, "max_prompt_length", None),
            "truncation_mode": getattr(training_args, "truncation_mode", "keep_end"),
            "estimate_kl": training_args.loss_type != "apo_zero_unpaired",
        }

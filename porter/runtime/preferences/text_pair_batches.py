"""The batches of ORPO and CPO: pairs whose prompts and answers are tokenised as texts, without a reference."""

from __future__ import annotations

from typing import Any

from . import preference_rows
from .preference_batches import PreferenceBatches
from .preference_rows import Documents


class ORPOBatches(PreferenceBatches):
    """`PreferenceBatches` as TRL 1.16's ORPOTrainer makes them: BOS and EOS around the text, the answer alone cut.

    The negative log-likelihood counts the prompt as well. `trl` before 0.28: the prompt is cut first, to
    `max_prompt_length`, at the end that `truncation_mode` doesn't keep.
    """

    KIND = "orpo"

    def _prepare(self, dataset: Any, per_process: int) -> Documents:
        return preference_rows.text_pairs(
            dataset,
            self._tokenizer,
            max_length=self._max_length,
            max_prompt_length=self._cut["max_prompt_length"],
            truncation_mode=self._cut["truncation_mode"],
            release=self._release,
        )

    def _nll_tokens(self, rows: Documents, row: int, kept: slice) -> int:
        return len(rows.ids[row][0][kept]) - 1

    @classmethod
    def _own_arguments(cls, training_args: Any) -> dict[str, Any]:
        own = ("max_prompt_length", "truncation_mode")
        return {name: getattr(training_args, name) for name in own if hasattr(training_args, name)}


class CPOBatches(ORPOBatches):
    """`PreferenceBatches` as TRL 1.16's CPOTrainer makes them: as ORPOTrainer's, with the answers' likelihood alone."""

    KIND = "cpo"
    _nll_tokens = PreferenceBatches._nll_tokens

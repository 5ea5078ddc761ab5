"""What a trainer of a TRL release does with its own metrics when transformers' Trainer logs a line."""

from __future__ import annotations

from dataclasses import dataclass

from .preferences import PreferenceRelease

# Kind of trainer → the first release of TRL whose `log` puts what was measured since the last line into any line.
KEEPS_SINCE = {"sft": (0, 15), "grpo": (0, 14), "rloo": (0, 22), "dpo": (0, 29), "kto": (1, 6)}

COUNTS_SINCE = {"sft": (0, 16), "grpo": (0, 16), "rloo": (0, 22), "dpo": (0, 29), "kto": (1, 8)}  # num_tokens


@dataclass(frozen=True)
class Lines:
    """A trainer of `kind` ("sft", "dpo", ...; empty for transformers' own) in a release of TRL."""

    kind: str
    release: PreferenceRelease

    @property
    def keeps(self) -> bool:
        """Whether metrics wait for the next line, so that a run's last one has those that no line has told yet.

        Where `log` looks for `loss` in the line (older DPO, ORPO, CPO) the last line has the Trainer's figures alone.
        """
        return self.kind in KEEPS_SINCE and self.release.since(*KEEPS_SINCE[self.kind])

    @property
    def counts_tokens(self) -> bool:
        """Whether lines have `num_tokens`, all that were fed so far."""
        return self.kind in COUNTS_SINCE and self.release.since(*COUNTS_SINCE[self.kind])

    @property
    def keeps_at_evaluations(self) -> bool:
        """Whether a step that is evaluated has a line without metrics, which wait for the next (0.16 and 0.17).

        `log` asked there whether an evaluation was due; since then it asks whether the model is in training mode.
        """
        return self.keeps and self.release.since(0, 16) and not self.release.since(0, 18)

    @property
    def in_results(self) -> bool:
        """Whether what `train()` and `evaluate()` return has the metrics of their lines: `log` adds them in place."""
        if not self.keeps:
            return self.kind in ("dpo", "kto", "orpo", "cpo")
        return self.release.since(1, 5) or (
            self.kind == "sft" and self.release.since(0, 22) and not self.release.since(0, 27)
        )

"""What a trainer of a TRL release does with its own metrics when transformers' Trainer logs a line."""

from __future__ import annotations

from dataclasses import dataclass

from . import release as release_of
from .preferences import PreferenceRelease

# Kind of trainer → the first release of TRL whose `log` puts what was measured since the last line into any line.
KEEPS_SINCE = {"sft": (0, 15), "grpo": (0, 14), "rloo": (0, 22), "dpo": (0, 29), "kto": (1, 6)}

COUNTS_SINCE = {"sft": (0, 16), "grpo": (0, 16), "rloo": (0, 22), "dpo": (0, 29), "kto": (1, 8)}  # num_tokens
ACCURACY_SINCE = {"sft": (0, 15), "dpo": (0, 29)}  # mean_token_accuracy
ENTROPY_SINCE = {"sft": (0, 22), "dpo": (0, 29), "kto": (1, 8), "grpo": (0, 20), "rloo": (0, 22)}
CLIP_RATIOS = tuple(f"clip_ratio/{of}" for of in ("low_mean", "low_min", "high_mean", "high_max", "region_mean"))
CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
LOGITS_SINCE = {"dpo": (0, 12), "kto": (1, 6)}


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
    def accuracy(self) -> bool:
        """Whether lines have `mean_token_accuracy`, of the trained tokens (of DPO the chosen answers')."""
        return self.kind in ACCURACY_SINCE and self.release.since(*ACCURACY_SINCE[self.kind])

    @property
    def entropy(self) -> str:
        """What `entropy` is a mean over: `trained` tokens, `attended` ones of each process (SFT before 1.3), ""."""
        if self.kind not in ENTROPY_SINCE or not self.release.since(*ENTROPY_SINCE[self.kind]):
            return ""
        return "attended" if self.kind == "sft" and not self.release.since(1, 3) else "trained"

    @property
    def logits(self) -> bool:
        """Whether `logits/chosen` and `logits/rejected` are means over the answers' tokens.

        DPO's were means over padding, too, before 0.12, as ORPO's and CPO's are; KTO's were sums by row before 1.6.
        """
        return self.kind in LOGITS_SINCE and self.release.since(*LOGITS_SINCE[self.kind])

    @property
    def of_evaluations(self) -> tuple[str, ...]:
        """What an evaluation's line has, without `eval_`, that the port's has too."""
        own = {"mean_token_accuracy": self.accuracy, "entropy": bool(self.entropy), "num_tokens": self.counts_tokens}
        rewards = ("rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected")
        pairs = rewards if self.kind in ("dpo", "kto", "orpo", "cpo") else ()
        more = ("rewards/accuracies",) if self.kind in ("dpo", "orpo", "cpo") else ()
        logits = ("logits/chosen", "logits/rejected") if self.logits else ()
        return (*(name for name, has in own.items() if has), *pairs, *more, *logits)

    @property
    def counts_repeated(self) -> bool:
        """Whether rewards and logps of an evaluation count the rows with which accelerate fills its last batch.

        DPO gathers them all from 0.29 on; `gather_for_metrics` takes them off again.
        """
        return self.kind == "dpo" and self.release.since(0, 29)

    @property
    def of_processes(self) -> tuple[str, ...]:
        """Which of `entropy` and `logits` are means of each process's own mean, not of the tokens of all."""
        names = {"entropy": (1, 3), "logits": (0, 29)}
        return tuple(name for name, until in names.items() if self.kind == "dpo" and not self.release.since(*until))

    @property
    def extremes_of_rows(self) -> bool:
        """Whether lowest and highest clipped ratios are those of rows; before 1.9 of the means of processes."""
        return self.release.since(1, 9)

    def clips(self, loss_type: str) -> tuple[str, ...]:
        """What lines have of the ratios that GRPO's and RLOO's losses clip."""
        if self.kind not in ("grpo", "rloo") or not self.release.since(0, 22 if self.kind == "rloo" else 16):
            return ()
        if not self.release.since(0, 17):
            return ("clip_ratio",)
        told = self.kind == "rloo" or not self.release.since(0, 26) or loss_type in CLIPPED
        return CLIP_RATIOS if told else ("cispo_clip_ratio",) if loss_type == "cispo" else ()

    @property
    def keeps_at_evaluations(self) -> bool:
        """Whether a step that is evaluated has a line without metrics, which wait for the next (0.16 and 0.17).

        `log` asked there whether an evaluation was due; since then it asks whether the model is in training mode.
        """
        return self.keeps and self.release.since(0, 16) and not self.release.since(0, 18)

    @property
    def by_rows(self) -> bool:
        """Whether rewards and logps are means over a line's rows, not over its micro-batches (KTO before 1.6)."""
        return self.kind == "kto" and not self.keeps

    @property
    def returns_epoch(self) -> bool:
        """Whether what they return has `epoch`: the Trainer adds it to the line that it is given, a copy elsewhere."""
        return not self.keeps or self.in_results

    @property
    def in_results(self) -> bool:
        """Whether what `train()` and `evaluate()` return has the metrics of their lines: `log` adds them in place."""
        if not self.keeps:
            return self.kind in ("dpo", "kto", "orpo", "cpo")
        return self.release.since(1, 5) or (
            self.kind == "sft" and self.release.since(0, 22) and not self.release.since(0, 27)
        )


def lines_of(kind: str, trl: str) -> Lines:
    """Of the release `trl`, today's for an empty text."""
    return Lines(kind, release_of(trl or None))

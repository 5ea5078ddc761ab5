"""What a TRL release did with the rows of a dataset: the questions that releases answered differently.

    SFTBatches(dataset, tokenizer, mesh, trl="0.8.6", ...)

trains the tokens that TRL 0.8.6 trained. Every answer is read from that release's `sft_trainer.py`, and checked against
what the release itself gave (tests/fixtures/trl_releases.json).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..field_tables import at_version, find_table, version_key
from .prompts import PromptRelease

TODAY = "1.16.0"  # the release that this runtime follows when none is named
OLDEST = (0, 7)
# How packing puts documents into rows that TRL's collator runs together, each with positions of its own.
APART = ("bfd", "bfd_split", "ffd")
# `Release.of_no_token` → the name under which batches say which padding has no token to see.
BLIND = {"row": "sees_row", "mean": "averages_row", "past": "averages_past", "unpadded": "sees_nothing"}
COUNTS_ATTENDED = (2025, 7, 7)  # Unsloth's release from which padding that has labels doesn't count among the tokens
RAISES_BY_STEP = (2025, 11, 4)  # Unsloth's first release that raises GRPO's batch by the completions of a whole step
SETTLES_ACCELERATE = (2026, 4, 5)  # Unsloth's first release that keeps accelerate from dividing a second time


@dataclass(frozen=True)
class Release(PromptRelease):
    """A release of TRL's SFTTrainer, and the transformers under it.

    `trl` is its version, `transformers` the version that ran it. `unsloth`: the release of Unsloth that loaded the
    model, which puts its own count of a step's tokens into transformers' Trainer; empty without.
    """

    transformers: str
    unsloth: str = ""

    @property
    def is_todays(self) -> bool:
        """Whether rows are prepared as this runtime does without asking for a release."""
        return self.since(1, 15)

    @property
    def whole_text(self) -> bool:
        """Every row became one text, and every token of it but padding was trained (before 0.15)."""
        return not self.since(0, 15)

    @property
    def text_field(self) -> str | None:
        """The column taken for text when none was named; before 0.12 there was none."""
        return "text" if self.since(0, 12) else None

    @property
    def columns_before_text(self) -> bool:
        """Before 0.12 a named text column won over a formatting function, and over conversations."""
        return not self.since(0, 12)

    @property
    def one_start_for_chats(self) -> bool:
        """A rendered conversation was tokenised without a start token of its own: in 0.9 to 0.14, and from 0.17 on.

        Otherwise a template that writes the start token gave two of them.
        """
        return self.since(0, 17) or (self.since(0, 9) and not self.since(0, 15))

    def packing_strategy(self, asked: str) -> str:
        """How `packing=True` packs: in a buffer before 0.15, `wrapped` before 0.19, then by best fit.

        That is `ffd` before 0.22, by either name; in 0.27 and 0.28 `bfd` packed what it cut off. 0.29 called this
        `bfd-requeue`, and its documents saw each other.
        """
        if self.whole_text:
            return "constant_length"
        if not self.since(0, 19):
            return "wrapped"
        if asked in ("ffd", "bfd"):
            splits = self.since(0, 27) and not self.since(0, 29)
            return "ffd" if not self.since(0, 22) else "bfd_split" if splits else "bfd"
        if asked in ("bfd-requeue", "bfd_split"):
            return "bfd_split" if self.since(1, 0) else "bfd-requeue"
        return asked

    def runs_together(self, asked: str) -> bool:
        """Whether `packing=True` has the collator run the rows of a batch together, those of evaluation as well."""
        return self.packing_strategy(asked) in APART

    @property
    def shuffles_before_packing(self) -> bool:
        """Packing before 0.15 shuffled the packed rows; from 0.11 on also the texts of its buffer."""
        return self.since(0, 11)

    @property
    def takes_tokens(self) -> bool:
        """Before 0.8.2 rows of tokens were made anew from their texts."""
        return self.since(0, 8, 2)

    @property
    def packs_tokens(self) -> bool:
        """Before 0.13 a tokenised dataset was taken as it was, packing or not; packing then meant labels of its own."""
        return self.since(0, 13)

    @property
    def masks_padding_token(self) -> bool:
        """Labels were -100 wherever the padding token stood: with padding = end token, no end was ever trained."""
        return not self.since(0, 16, 1)

    @property
    def gives_padding(self) -> str:
        """Which padding token SFTTrainer gave the tokenizer, see `set_up_tokenizer`: from 0.16.1 to 1.0 its collator
        alone had one, and the tokenizer was saved `none`."""
        return "none" if self.since(0, 16, 1) and not self.since(1, 1) else "asked"

    @property
    def takes_unknown_padding(self) -> bool:
        """Before 1.1 a padding token outside the vocabulary was what the tokenizer made of it, its unknown one."""
        return not self.since(1, 1)

    @property
    def end_token(self) -> str:
        """How rows were ended: `no`, `id` (0.16: the end token's id, after conversations too) or `text`."""
        return "text" if self.since(0, 17) else "id" if self.since(0, 16) else "no"

    @property
    def end_field(self) -> bool:
        """Whether the named text column got the end token; before 1.15 only a column `text` did."""
        return self.since(1, 15)

    @property
    def ends_at_eos_token(self) -> bool:
        """From 0.16 to 1.14.1 a sampled completion ended at the tokenizer's end token alone, not at all of the
        checkpoint's; before, `generate` was told none."""
        return self.since(0, 16) and not self.since(1, 14, 2)

    @property
    def divides_by_temperature(self) -> bool:
        """Before 0.16 temperature was for sampling alone: GRPO's log-probabilities were of the logits as they are."""
        return self.since(0, 16)

    @property
    def tells_vllm_top_k(self) -> bool:
        """Before 0.16 vLLM was told no top_k and took all tokens; generate took the 50 of GenerationConfig."""
        return self.since(0, 16)

    @property
    def checkpoint_fills(self) -> str | None:
        """Which settings of a trainer that samples its checkpoint's generation_config.json replaced: `defaults`, those
        that are worth what GenerationConfig has anyway (transformers 4.50 to 4.57; TRL shields its own from 0.26.2 on),
        or `unset`, those that are None (transformers 5)."""
        if version_key(self.transformers) >= (5, 0, 0):
            return "unset"
        return "defaults" if version_key(self.transformers) >= (4, 50, 0) and not self.since(0, 26, 2) else None

    @property
    def policy_reference(self) -> str:
        """What GRPO and RLOO compare adapters with: the `base` alone before 0.27, since then a copy of the `start`, as
        GRPO did in 0.14."""
        return "start" if self.since(0, 27) or not self.since(0, 15) else "base"

    @property
    def dealing(self) -> str:
        """How GRPO's micro-steps share a generation batch: `shuffled`; `split`, each process's rows as they come;
        `in_order`, each sampled on its own."""
        return "shuffled" if self.since(0, 18) else "split" if self.since(0, 17) else "in_order"

    @property
    def leftovers(self) -> str:
        """An epoch's prompts that fill no generation batch of GRPO are `trained`, from 0.16 on `left_out`, but
        `counted` by transformers 4.52 where the sampler's length has them all the same (before 0.20)."""
        counted = not self.since(0, 20) and version_key(self.transformers) >= (4, 52, 0)
        return "trained" if not self.since(0, 16) else "counted" if counted else "left_out"

    @property
    def raises_batch(self) -> str | None:
        """Whose completions `num_generations` has to divide, else Unsloth raises GRPO's batch to it: a process's of a
        `micro_step`, all of a `step` (since 2025.11.4, for a TRL that has steps_per_generation).
        """
        by_step = version_key(self.unsloth or "0") >= RAISES_BY_STEP and self.since(0, 18)
        return None if not self.unsloth else "step" if by_step else "micro_step"

    @property
    def knows_completions(self) -> bool:
        """Whether prompts were masked; before 0.17 prompt and completion were one text."""
        return self.since(0, 17)

    @property
    def chats_as_text(self) -> bool:
        """Before 0.19 conversations were rendered to text, which was tokenised like any other."""
        return not self.since(0, 19)

    @property
    def hides_generation_prompt(self) -> bool:
        """Whether the header of the assistant's turn belonged to the prompt; in 0.19 to 0.23 it was trained."""
        return self.since(0, 24) or self.chats_as_text

    @property
    def masks_common_prefix(self) -> bool:
        """From 1.14.2 on the completion starts where prompt and whole diverge, before at the prompt's length."""
        return self.since(1, 14, 2)

    @property
    def packs_masks(self) -> bool:
        """Before 0.20 packing threw the masks away: prompts were trained too."""
        return self.since(0, 20)

    @property
    def masks_first_packed(self) -> bool:
        """Whether nothing predicted the first token of a packed document; in 0.19 to 0.23.0 the one before did."""
        return self.since(0, 23, 1) or not self.since(0, 19)

    def joins_documents(self, attention: str | None) -> bool:
        """Whether rows that run together see each other: flash attention alone had their places in 0.19 to 0.23.0."""
        return self.since(0, 19) and not self.since(0, 23, 1) and "flash" not in (attention or "")

    @property
    def reads_labels(self) -> bool:
        """Whether a tokenised dataset's own labels counted; before 0.19 its collator replaced them by the tokens."""
        return self.since(0, 19)

    @property
    def drops_untrained(self) -> bool:
        """Whether rows without a trained token left (from 1.9 on)."""
        return self.since(1, 9)

    @property
    def may_format_batches(self) -> bool:
        """Whether a formatting function that returns a list was called on batches of rows."""
        return not self.since(0, 21)

    @property
    def counts_tokens(self) -> bool:
        """Whether the loss was a mean over all tokens of a step; before transformers 4.46 a mean of batch means."""
        return version_key(self.transformers) >= (4, 46, 0) and not self.hides_tokens

    @property
    def hides_tokens(self) -> bool:
        """Whether models that take the number of a step's tokens weren't told it: transformers 4.47.0 and 4.48.0. A
        step's gradient, and the loss that was logged, were the sum of its micro-batches' means; Unsloth's tells it."""
        return not self.unsloth and version_key(self.transformers) in ((4, 47, 0), (4, 48, 0))

    def counts_tokens_of(self, family: str) -> bool:
        """The same of a model: Mistral's class didn't take the number of tokens before 4.48; Unsloth's takes it."""
        if family == "mistral" and version_key(self.transformers) >= (4, 46, 0) and not self.unsloth:
            return version_key(self.transformers) >= (4, 48, 0)
        return True

    def sums_gradients_of(self, trainer: str, family: str | None) -> bool:
        """Whether a step's gradient was its micro-batches' sum, not their mean, since nobody divided it.

        That is so where transformers 4.46 and 4.47 counted no tokens: of a class that takes no number of them, and of
        preference trainers, whose batches have no `labels`. From 4.48.1 to 4.52 those had to ask to be divided.
        4.47.0 and 4.48.0 divided nothing that they counted.
        """
        version = version_key(self.transformers)
        if not (4, 46, 0) <= version < (4, 53, 0):
            return False
        if trainer in ("DPOTrainer", "KTOTrainer", "CPOTrainer", "ORPOTrainer"):
            asks = self.since(0, 20 if trainer == "ORPOTrainer" else 14)
            return version < (4, 48, 0) or (version > (4, 48, 0) and not asks)
        return self.hides_tokens or (family is not None and not self.counts_tokens_of(family))

    @property
    def averages_multimodal(self) -> bool:
        """Whether multimodal models (Gemma3ForConditionalGeneration) take a mean of each micro-batch: since they exist.

        Their class takes no number of a step's tokens.
        """
        return version_key(self.transformers) >= (4, 50, 0)

    @property
    def sums_multimodal(self) -> bool:
        """Whether nobody divided the sum of these means by their number (before 4.53)."""
        return (4, 50, 0) <= version_key(self.transformers) < (4, 53, 0)

    @property
    def divides_by_made(self) -> bool:
        """Whether the Trainer divided such means by the micro-batches that a step has (transformers from 4.53 on)."""
        return self.rounds_steps_up and not self.sums_multimodal

    @property
    def depends_on_family(self) -> bool:
        """Whether it counts tokens of some families and not of others, under transformers 4.46 and 4.47."""
        return self.counts_tokens and not self.counts_tokens_of("mistral")

    @property
    def counts_firsts(self) -> bool:
        """Whether that count took in every row's first token, which nothing predicts (transformers 4.46 to 5.9).

        Unsloth's count never did.
        """
        return self.counts_tokens and not self.unsloth and version_key(self.transformers) < (5, 10, 0)

    @property
    def counts_attended(self) -> bool:
        """Whether that count left out what the model doesn't attend to: padding with labels, in Unsloth's."""
        return self.counts_tokens and version_key(self.unsloth or "0") >= COUNTS_ATTENDED

    @property
    def evaluates_by_token(self) -> bool:
        """Whether an evaluation's batch was divided by its number of tokens over all processes (from 4.57 on)."""
        return version_key(self.transformers) >= (4, 57, 0)

    @property
    def evaluates_firsts(self) -> bool:
        """Whether that number took in every row's first token as well (transformers 4.57 to 5.9, Unsloth's too)."""
        return self.evaluates_by_token and version_key(self.transformers) < (5, 10, 0)

    @property
    def divides_twice(self) -> bool:
        """Whether Trainer and accelerate both divided a gradient by the accumulation (transformers 5.2 to 5.5).

        Under DeepSpeed accelerate doesn't, nor since Unsloth sees to it.
        """
        if version_key(self.unsloth or "0") >= SETTLES_ACCELERATE:
            return False
        return (5, 2, 0) <= version_key(self.transformers) < (5, 6, 0)

    @property
    def rounds_steps_up(self) -> bool:
        """Whether an epoch's short last group counted as a step of the run (transformers from 4.52 on)."""
        return version_key(self.transformers) >= (4, 52, 0)

    @property
    def logs_next_rate(self) -> bool:
        """Whether a log line had the rate of the next step: the schedule had stepped before it (before 4.51)."""
        return version_key(self.transformers) < (4, 51, 0)

    @property
    def logs_norms(self) -> bool:
        """Whether a log line had the step's gradient norm (transformers from 4.38 on)."""
        return version_key(self.transformers) >= (4, 38, 0)

    @property
    def logs_unclipped_norms(self) -> bool:
        """Whether it had the norm also where nothing clipped (transformers from 5.3 on)."""
        return version_key(self.transformers) >= (5, 3, 0)

    @property
    def saves_last(self) -> bool:
        """Whether a checkpoint came at the end of training, as it does with Tunix (transformers from 4.42 on)."""
        return version_key(self.transformers) >= (4, 42, 0)

    @property
    def evaluates_last(self) -> bool:
        """Whether eval_steps had an evaluation at the last step, due or not (transformers from 5.4 on)."""
        return version_key(self.transformers) >= (5, 4, 0)

    def of_no_token(self, attention: str | tuple[str | None, str] | None = None) -> str:
        """What padding in front of a row, which has no token to see, took from its attention on a GPU.

        `attention`: the model's attn_implementation, with its release of transformers where that isn't this one. `row`:
        sdpa let it see all the row until 4.53; `nothing`: it gets zeros; `unpadded`: all padding does, from flash
        attention; `mean`: eager attention takes the mean of the row's values; `past`: of these but for padding that
        comes after it, where masks were added up (4.31 to 4.35).
        """
        attention, transformers = attention if isinstance(attention, tuple) else (attention, self.transformers)
        version = version_key(transformers)
        attention = attention or ("sdpa" if version >= (4, 36, 0) else "eager")  # the release's own
        if attention == "eager":
            return "past" if (4, 31, 0) <= version < (4, 36, 0) else "mean"
        nothing = "unpadded" if "flash" in attention else "nothing"
        return "row" if attention == "sdpa" and version < (4, 53, 0) else nothing

    @property
    def reads_data_seed(self) -> bool:
        """Whether `data_seed` gave the order of the rows; before transformers 4.46 nothing read it."""
        return version_key(self.transformers) >= (4, 46, 0)

    @property
    def evaluates_by_length(self) -> bool:
        """Whether `group_by_length` ordered the rows of evaluations too, as transformers' Trainer does since 4.46."""
        return version_key(self.transformers) >= (4, 46, 0)

    def sums_like(self, transformers: str) -> bool:
        """Whether that transformers grouped micro-batches and took means, evaluating too, as this release's own."""
        eras = ((4, 46, 0), (4, 47, 0), (4, 52, 0), (4, 57, 0), (5, 10, 0))
        own, other = version_key(self.transformers), version_key(transformers)
        hidden = replace(self, transformers=transformers).hides_tokens
        return [own >= era for era in eras] == [other >= era for era in eras] and hidden == self.hides_tokens


def release(trl: str | None, transformers: str | None = None, unsloth: str | None = None) -> Release:
    """The release of TRL `trl` (today's when None), on the transformers of its day unless one is named.

    `unsloth`: the release that loaded the model, see `Release`. ValueError for a version that isn't known.
    """
    if trl is None:
        return Release(TODAY, transformers or "5.12.1", unsloth or "")
    if not trl[:1].isdigit() or version_key(trl) < (*OLDEST, 0):
        raise ValueError(f"trl={trl!r}: expected a release of TRL from {'.'.join(map(str, OLDEST))} on, like '0.12.2'")
    day = at_version(find_table("trl.SFTConfig").contemporary, trl)
    return Release(trl, transformers or day or "4.31", unsloth or "")

"""What a TRL release's preference trainers (DPO, ORPO, CPO, KTO) did with the rows of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

from ..field_tables import version_key


@dataclass(frozen=True)
class PreferenceRelease:
    """A release of TRL, `trl` its version, as far as pairs and completions go."""

    trl: str

    def since(self, *version: int) -> bool:
        """Whether this is the release `version` of TRL or a later one."""
        return version_key(self.trl) >= (*version, *(0,) * (3 - len(version)))

    @property
    def pairs_apart(self) -> bool:
        """Whether DPOTrainer tokenised prompt and answers apart (0.12 to 0.28)."""
        return self.since(0, 12) and not self.since(0, 29)

    @property
    def pairs_joined(self) -> bool:
        """Whether DPOTrainer put start and end tokens around prompt and answer (before 0.12), see `pairs_split`."""
        return not self.since(0, 12)

    @property
    def pairs_split(self) -> bool:
        """Whether DPOTrainer tokenised prompt and answers apart and put no start token before them (before 0.7.5).

        What stood in them as the end token was hidden from attention.
        """
        return not self.since(0, 7, 5)

    @property
    def gives_pairs_padding(self) -> str:
        """Which padding token DPOTrainer gave the tokenizer, see `set_up_tokenizer`.

        `none` from 0.24 to 0.28, `missing` in 0.29 and 1.0. Before 0.24 it refused a tokenizer without one.
        """
        missing = self.since(0, 29) and not self.since(1, 1)
        return "missing" if missing else "asked" if self.since(1, 1) or not self.since(0, 24) else "none"

    @property
    def completions_joined(self) -> bool:
        """Whether KTOTrainer put start and end tokens around prompt and answer itself (before 1.3)."""
        return not self.since(1, 3)

    @property
    def cuts_text_prompts(self) -> bool:
        """Whether ORPOTrainer and CPOTrainer cut the prompt of a long pair first (before 0.28)."""
        return not self.since(0, 28)

    @property
    def cuts_by_longer_answer(self) -> bool:
        """Whether ORPOTrainer and CPOTrainer cut both answers of a long pair to `max_length` less the longer answer,
        whatever the prompt's length (0.28 to 1.14)."""
        return self.since(0, 28) and not self.since(1, 15)

    @property
    def cuts_text_pairs_as_today(self) -> bool:
        """Whether they cut each answer to what its prompt leaves of `max_length` (since 1.15)."""
        return self.since(1, 15)

    @property
    def drops_long_prompts(self) -> bool:
        """Whether rows whose prompt alone fills `max_length` left (from 1.9 on); before they stayed, with nothing to
        train."""
        return self.since(1, 9)

    @property
    def ends_chat_pairs(self) -> bool:
        """Whether DPOTrainer put the end token behind the answers of conversations, too (0.12 to 0.27.1)."""
        return self.pairs_apart and not self.since(0, 27, 2)

    @property
    def shuffles_completions(self) -> bool:
        """Whether KTOTrainer shuffled its rows itself, with `data_seed`, before it read them in order (before 0.12)."""
        return not self.since(0, 12)

    @property
    def cuts_pairs_start(self) -> bool:
        """Whether DPOTrainer cut pairs at their end whatever `truncation_mode` said (0.12 and 0.13)."""
        return self.pairs_apart and not self.since(0, 14)

    @property
    def cuts_pair_columns(self) -> bool:
        """Whether DPOTrainer kept the last columns of a padded batch, not the end of each document (0.14 to 0.17)."""
        return self.pairs_apart and self.since(0, 14) and not self.since(0, 18)

    @property
    def loses_pair_ends(self) -> bool:
        """Whether DPOTrainer cut its padded batch one column too short (0.12), see `older_preferences.lost_ends`."""
        return self.pairs_apart and not self.since(0, 13)

    @property
    def wraps_pairs(self) -> bool:
        """Whether DPOTrainer predicted the first token of a full, cut answer from its last (0.14 to 0.18).

        From 0.19 on it left the first column out of its sums (`per_token_logps[:, 1:]`); ipo's mean still counts it.
        """
        return self.pairs_apart and self.since(0, 14) and not self.since(0, 19)

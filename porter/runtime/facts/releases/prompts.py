"""What a TRL release's trainers that sample (GRPO, RLOO) made of prompts: start tokens, cuts, answers that go on."""

from __future__ import annotations

from dataclasses import dataclass

from .preferences import PreferenceRelease

AS_TODAY = {"grpo": (0, 26), "rloo": (0, 27)}  # by kind of trainer: the first release that only tokenises prompts


@dataclass(frozen=True)
class PromptRelease(PreferenceRelease):
    """A release of TRL, as far as prompts to sample from go; `kind` is "grpo" or "rloo"."""

    def prompts_as_today(self, kind: str) -> bool:
        """Whether prompts that are text get the tokenizer's start token; before, nothing was added to them."""
        return self.since(*AS_TODAY[kind])

    def samples_as_today(self, kind: str) -> bool:
        """Whether prompts, and what log lines say of rewards, are as in today's."""
        return self.prompts_as_today(kind) and self.logs_whole_spread

    @property
    def logs_whole_spread(self) -> bool:
        """Whether `reward_std` is of all that was sampled at once (from 0.27 on); before, a mean of the groups'."""
        return self.since(0, 27)

    def cuts_prompts_as_tokenizer(self, kind: str) -> bool:
        """Whether the tokenizer cut prompts to `max_prompt_length`, where its `truncation_side` says (from 0.24 on).

        Before, the last tokens stayed, as with vLLM.
        """
        return self.since(0, 24) and not self.prompts_as_today(kind)

    @property
    def continues_answers(self) -> bool:
        """Whether a prompt that ends in the assistant's message was continued there (0.15 to 0.24), not answered anew.

        So does `apply_chat_template` of trl.data_utils; from 0.25 on, and in 0.14, the tokenizer's own is called.
        """
        return self.since(0, 15) and not self.since(0, 25)

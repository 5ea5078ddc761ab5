"""How long rows, prompts and completions are: as the command line says, else as the run allows; what can't be known is
refused with the option that says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn


class RowLengths:
    """Tokens, from the options `seq_len`, `prompt_len` and `completion_len` of a request and the port's arguments.

    `refuse` ends the run with its line.
    """

    def __init__(self, request: Mapping[str, Any], refuse: Callable[[str], NoReturn]) -> None:
        self._row, self._prompt, self._completion = (
            request.get(name) for name in ("seq_len", "prompt_len", "completion_len")
        )
        self._refuse = refuse

    def row(self, longest: Any) -> int:
        """Of a row, which the port cuts to `longest`."""
        found = self._row or _known(longest)
        return found or self._refuse("the script sets no max_length (or tokenises its rows itself): give --seq-len N")

    def completion(self, most: Any, name: str) -> int:
        """Of a completion; `most`: the port's argument of this `name`."""
        found = self._completion or _known(most)
        return found or self._refuse(f"{name} is not known before the run: give --completion-len N")

    def prompt(self, longest: Any, completion: int) -> int:
        """Of a prompt that completions are sampled after."""
        if self._row and not self._prompt:
            left = self._row - completion
            return (
                left
                if left > 0
                else self._refuse(
                    f"--seq-len {self._row} leaves no token for the prompt before {completion} of a completion: give "
                    "--prompt-len N, or a shorter --completion-len"
                )
            )
        found = self._prompt or _known(longest)
        return found or self._refuse(
            "the script doesn't say how long its prompts are, and the dataset is not read: give --prompt-len N, the "
            "tokens of the longest"
        )

    def prompt_within(self, row: int, completion: int, context: int | None) -> int:
        """Of a prompt that is part of a row of `row` tokens, and has to leave `completion` of the model's context."""
        return self._prompt or max(1, min(row, context - completion if context else row))


def _known(given: Any) -> int | None:
    """A number of tokens that the port says; None for what is computed from data that isn't there."""
    return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else None

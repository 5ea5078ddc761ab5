"""Batches of distillation: conversations of the dataset, or completions that the student or its teacher samples."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx

from ..batches import order
from ..batches.arrays import Batch
from ..batches.sft_batches import SFTBatches
from ..facts.releases import release
from ..generation.prompts import check_context, sampling_of
from ..generation.sampling import Sampler
from ..rows.rows import Rows
from ..rows.tokenization import IGNORED
from .distillation_rows import conversations, prompt_of

_SAME = """
    max_steps seed data_seed max_length chat_template_path eos_token average_tokens_across_devices lmbda seq_kd
    temperature max_new_tokens
""".split()
_FIELDS = {name: name for name in _SAME} | {
    "epochs": "num_train_epochs",
    "accumulation": "gradient_accumulation_steps",
    "drop_last": "dataloader_drop_last",
}


class GKDBatches(SFTBatches):
    """Batches of conversations, token for token those of TRL 1.16's GKDTrainer, as `SFTBatches` lays them out.

    The last message of `messages` is trained, the others are its prompt; of rows longer than `max_length` (None: the
    tokenizer's limit, at most 1024) the last tokens are kept.

    A micro-step of the GPU run is made of the dataset with the chance 1 - `lmbda`. Otherwise `model`, with the weights
    of the moment, samples up to `max_new_tokens` after each prompt at `temperature`, and those completions, with their
    end token, are trained instead; `seq_kd` lets `teacher_model` sample in the remaining micro-steps. As in TRL a
    token of a completion counts 1 / (the tokens that the dataset's own answers have in that step). Chances are drawn
    from Python's generator with `seed`, as TRL draws them; the completions' random numbers are JAX's.

    `batch_size` is the rows of one micro-step of the GPU run over all its `processes`; the other arguments are
    GKDConfig's, as for `SFTBatches`. With several processes GKDTrainer divides by the tokens of all of them, and then
    once more by their number when it averages the gradients; so does `scale` here. When it evaluates it doesn't.

    `checkpoint_fills` says which sampling settings a model's generation_config.json replaces, see
    `Release.checkpoint_fills`.

    `samples` says whether any step may be sampled.

    ValueError at once for shares outside 0 to 1, for a sampler without its model, and for lengths beyond its context.
    """

    KIND = ""  # GKDTrainer logs no metrics of its own

    def __init__(
        self,
        dataset: Any,
        tokenizer: Any,
        mesh: jax.sharding.Mesh,
        *,
        model: nnx.Module | None = None,
        teacher_model: nnx.Module | None = None,
        lmbda: float = 0.0,
        seq_kd: bool = False,
        temperature: float = 0.9,
        max_new_tokens: int = 128,
        checkpoint_fills: str | None = None,
        max_length: int | None = None,
        seed: int = 42,
        **settings: Any,
    ) -> None:
        if not 0 <= lmbda <= 1:
            raise ValueError(f"lmbda={lmbda}: the share of steps on the student's own completions is from 0 to 1")
        if settings.get("sampling") == "group_by_length":
            raise ValueError(
                "group_by_length: GKDTrainer has no lengths to group by, its rows are tokenised as they are fed"
            )
        if lmbda > 0 and model is None:
            raise ValueError(f"lmbda={lmbda}: give GKDBatches the model that samples, model=")
        if seq_kd and lmbda < 1 and teacher_model is None:
            raise ValueError("seq_kd=True: give GKDBatches the teacher that samples, teacher_model=")
        student, teacher = (model if lmbda > 0 else None), (teacher_model if seq_kd and lmbda < 1 else None)
        self.samples = student is not None or teacher is not None
        self._fills, self._max_length = checkpoint_fills, max_length
        self._chance, self._sample_seed, self._new_tokens, self._skipped = lmbda, seed, max_new_tokens, 0
        super().__init__(dataset, tokenizer, mesh, max_length=max_length, seed=seed, **settings)
        self._student, self._teacher = (
            None if each is None else self._sampler(each, temperature) for each in (student, teacher)
        )

    @classmethod
    def from_args(
        cls,
        training_args: Any,
        dataset: Any,
        tokenizer: Any,
        mesh: jax.sharding.Mesh,
        *,
        processes: int = 1,
        **own: Any,
    ) -> GKDBatches:
        """The batches of a GKDConfig whose values are known only when the script runs.

        `processes`: how many processes the GPU run was launched with; `own`: `model` and `teacher_model`.
        """
        settings = {
            name: getattr(training_args, field) for name, field in _FIELDS.items() if hasattr(training_args, field)
        }
        settings["sampling"] = order.sampling_of(training_args)
        settings["checkpoint_fills"] = release(training_args.of_trl, training_args.of_transformers).checkpoint_fills
        size = training_args.per_device_train_batch_size * processes
        return cls(dataset, tokenizer, mesh, batch_size=size, processes=processes, **settings, **own)

    def _made(self) -> Iterator[Batch]:
        chances = random.Random(self._sample_seed)
        for number, (picked, scale, *_) in enumerate(self._by_length()):
            scale = scale / self._averaged
            samplers = [self._drawn(chances) for _ in range(0, len(picked), self._deal.batch_size)]
            if number < self._skipped or not any(samplers):
                yield from self._assemble(self._rows, picked, scale, self.batch_size, self.length, None)
            else:
                yield from self._sampled(picked, scale, samplers, number)

    def skip(self, steps: int) -> None:
        """Samples nothing for the first `steps` steps, which a resumed trainer passes over."""
        self._skipped = steps

    @property
    def longest(self) -> int:
        """Tokens of the longest row of the dataset."""
        return int(self._rows.lengths.max())

    @property
    def _averaged(self) -> int:
        """By what GKDTrainer divides once too often: the processes that average what is divided by all tokens."""
        return self._deal.processes if self._tokens_of_all else 1

    def _prepare(self, dataset: Any, packing: str | None, max_steps: int = -1, *, trains: bool = False) -> Rows:
        return conversations(dataset, self._tokenizer, max_length=self._max_length)

    def _fixed_length(self, prepared: Rows) -> int:
        longest = int(prepared.lengths.max())
        if self.samples:
            longest = max(longest, self._longest_prompt(prepared) + self._new_tokens)
        return -(-longest // self._multiple) * self._multiple

    def _longest_prompt(self, prepared: Rows) -> int:
        return max(len(self._prompt(prepared, row)) for row in range(len(prepared)))

    def _prompt(self, prepared: Rows, row: int) -> list[int]:
        (start, stop) = prepared.rows[row][0]
        return prompt_of(prepared.tokens.ids[start:stop], prepared.tokens.labels[start:stop])

    def _sampler(self, model: nnx.Module, temperature: float) -> Sampler:
        longest = self._longest_prompt(self._rows)
        check_context(model, longest, self._new_tokens, "max_new_tokens")
        asked: dict[str, Any] = {
            "temperature": temperature,
            "top_k": 0,
            "top_p": 1.0,
            "min_p": None,
            "repetition_penalty": 1.0,
        }
        settings = sampling_of(model, self._tokenizer, self._new_tokens, fills=self._fills, **asked)
        return Sampler(model, self._mesh, settings, longest)

    def _drawn(self, chances: random.Random) -> Sampler | None:
        """Who samples the next micro-step; None: nobody, it is made of the dataset."""
        return self._student if chances.random() <= self._chance and self._student is not None else self._teacher

    def _sampled(
        self, picked: np.ndarray, scale: np.ndarray, samplers: Sequence[Sampler | None], number: int
    ) -> Iterator[Batch]:
        """The micro-batches of a step of which some micro-steps are sampled."""
        documents: list[tuple[list[int], int]] = []  # token ids, and how many of them are the prompt
        size = self._deal.batch_size
        for place, sampler in enumerate(samplers):
            rows = [int(row) for row in picked[place * size : (place + 1) * size]]
            prompts = [self._prompt(self._rows, row) for row in rows]
            if sampler is None:
                spans = [self._rows.rows[row][0] for row in rows]
                answers = [
                    self._rows.tokens.ids[a + len(p) : b].tolist() for (a, b), p in zip(spans, prompts, strict=True)
                ]
            else:
                key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self._sample_seed), number), place)
                answers = self._completions(sampler, prompts, key)
            documents += [(prompt + answer, len(prompt)) for prompt, answer in zip(prompts, answers, strict=True)]
        for first in range(0, self._micro_batches * self.batch_size, self.batch_size):
            batch = self._empty(self.batch_size, self.length, None)
            for place, at in enumerate(range(first, min(first + self.batch_size, len(documents)))):
                ids, start = documents[at]
                batch["input_tokens"][place, : len(ids)] = ids
                batch["labels"][place, : len(ids)] = [IGNORED] * start + ids[start:]
                batch["segment_ids"][place, : len(ids)] = 1
                batch["scale"][place] = scale[at]
            yield batch

    def _completions(self, sampler: Sampler, prompts: list[list[int]], key: jax.Array) -> list[list[int]]:
        """A completion for each prompt; a short last micro-step is filled up, so that sampling compiles once."""
        full = list(itertools.islice(itertools.cycle(prompts), self._deal.batch_size))
        return sampler(full, key)[: len(prompts)]

"""The batches of a preference run on GPUs, for a TPU mesh.

The same rows in the same order and with the same number to an optimizer step as TRL's trainers; the split of a step
into micro-batches follows the mesh where the loss allows it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ..batches import accumulation as older
from ..batches import order
from ..batches.arrays import Batch, divisible
from ..batches.config_arguments import told
from ..batches.deal_rows import Deal
from ..facts import releases
from ..facts.lengths import LENGTH_MULTIPLE, rounded
from ..facts.releases.lines import Lines
from ..hosts.global_arrays import placed
from ..losses.for_metrics import named
from ..rows.tokenization import IGNORED
from ..rows.tokenizer_setup import set_up_tokenizer
from . import preference_rows
from .answer_shares import answer_shares
from .older_preferences import lost_ends, lost_starts, see_from_last_column
from .preference_evaluation import PreferenceEvaluation
from .preference_rows import Documents


class PreferenceBatches:
    """Batches of preference pairs, token for token those of TRL 1.16's DPOTrainer.

    Iterating (again and again, always the same) gives `accumulation` micro-batches for each of `steps` optimizer steps:
    dicts of NumPy arrays `input_tokens`, `labels` (-100 = prompt or padding), `positions` and `segment_ids` (0 =
    padding), all (B, T) int32, the chosen answer of a pair in one row and the rejected in the next. `scale` (B,)
    float32 is what a pair's loss counts: TRL takes the mean over the pairs of each process's micro-batch, then over
    the micro-batches of the step. Before transformers 4.53 that is their sum / `accumulation`, however few they are.
    `nll_scale` (B,) is the same for the tokens of the chosen answers. What is there for logged metrics `Inputs` says.
    B is the smallest multiple of the mesh's fsdp axis that holds `batch_size` pairs; rows that are missing count 0. T
    is the longest row in multiples of 128. With several JAX processes the arrays are global ones, see `global_arrays`,
    and B is the same.

    `batch_size` is the pairs of one micro-step of the GPU run over all its `processes`, `accumulation` its
    gradient_accumulation_steps; the other arguments are DPOConfig's (`epochs`: num_train_epochs, `num_proc`:
    dataset_num_proc, `drop_last`: dataloader_drop_last, `sampling`: train_sampling_strategy; `max_prompt_length` and
    `max_completion_length` are those of TRL before 0.29).

    `whole_micro_batches`: one micro-batch of the GPU run is one here, for losses that compare the rows of a micro-batch
    (`aot`, `aot_unpaired`, KTO's KL). `processes` (B,) int32 then tells which process of the GPU run had the row. Else
    `micro_batch` says how many pairs to make B from instead of `batch_size`; the step keeps its pairs.

    `trl` ("0.19.1"): prepare the pairs as that release did, see `older_preferences`, and make as many steps as the
    transformers of its day, or `transformers`.

    The tokenizer gets a pad token where DPOTrainer of that release gave it one (from 0.29 on).
    """

    KIND = "dpo"
    documents = 2  # rows of the batch for each row of the dataset
    whole = False  # whether the loss always compares the rows of a micro-batch

    def __init__(
        self,
        dataset: Any,
        tokenizer: Any,
        mesh: jax.sharding.Mesh,
        *,
        epochs: float = 3.0,
        max_steps: int = -1,
        batch_size: int = 8,
        accumulation: int = 1,
        processes: int = 1,
        seed: int = 42,
        data_seed: int | None = None,
        max_length: int | None = 1024,
        truncation_mode: str = "keep_start",
        max_prompt_length: int | None = None,
        max_completion_length: int | None = None,
        pad_token: str | None = None,
        pad_to_multiple_of: int | str | None = None,
        num_proc: int | None = None,
        drop_last: bool = False,
        sampling: str = "random",
        shuffling: str = "seeded",
        whole_micro_batches: bool = False,
        micro_batch: int | None = None,
        trl: str | None = None,
        transformers: str | None = None,
    ) -> None:
        self._release = releases.release(trl, transformers)
        self.transformers = self._release.transformers  # the source's release
        self.lines = Lines(self.KIND, self._release)
        self._fed: list[int] = []  # tokens of each optimizer step
        self._deal = Deal(batch_size=batch_size, accumulation=accumulation, processes=processes, drop_last=drop_last)
        self._padding = set_up_tokenizer(
            tokenizer,
            pad_token=pad_token,
            gives_padding=self._release.gives_pairs_padding,
            takes_unknown=self._release.takes_unknown_padding,
        )
        self._tokenizer, self._mesh = tokenizer, mesh
        self._max_length = max_length
        self._cut: dict[str, Any] = {
            "truncation_mode": truncation_mode,
            "max_prompt_length": max_prompt_length,
            "max_completion_length": max_completion_length,
        }
        self._num_proc = num_proc
        self._whole = whole_micro_batches or self.whole
        if self._whole and micro_batch is not None:
            raise ValueError("the loss compares the rows of a GPU run's micro-batch: leave out micro_batch")
        multiple = pad_to_multiple_of if isinstance(pad_to_multiple_of, int) else 1  # "auto" is nothing on a GPU
        self._multiple = math.lcm(LENGTH_MULTIPLE, multiple)
        self._sampling: dict[str, Any] = {
            "sampling": sampling,
            "seed": order.seed_of(self._release, seed, data_seed),
            "shuffling": shuffling,
        }
        self._own_seed = seed if data_seed is None else data_seed

        self._rows = self._prepare(dataset, batch_size // processes)
        limit = getattr(tokenizer, "model_max_length", None)
        if limit and self._rows.longest > limit:
            raise ValueError(
                f"a row of {self._rows.longest} tokens is longer than the model's context of {limit} (the tokenizer's "
                f"model_max_length): set max_length={limit} or less"
            )
        self.rows = len(self._rows)
        self.steps_per_epoch = self._deal.steps(self.rows)
        self._deal.check(self.rows, self.steps_per_epoch)
        self.gpu_batches = self._deal.count(self.rows)  # an epoch's, of each process: len(get_train_dataloader())
        if not self._release.rounds_steps_up:
            self.uneven_epochs = self.steps_per_epoch != self._deal.steps(self.rows, full=True)
            self.steps_per_epoch = max(self._deal.steps(self.rows, full=True), 1)
        self.steps = max_steps if max_steps > 0 else math.ceil(epochs * self.steps_per_epoch)
        self.trained_rows = self._deal.trained_rows(self.rows, epochs, max_steps)
        self.batch_size = self._divisible(micro_batch or batch_size)
        pairs = self.batch_size // self.documents
        largest = accumulation
        if not self._release.rounds_steps_up:
            largest = max(len(group) for group in self._groups())
        self._micro_batches = largest if self._whole else math.ceil(batch_size * largest / pairs)
        self.accumulation = self._micro_batches if self._micro_batches > 1 else None
        self.length = self._fixed_length(self._rows)
        if jax.process_index() == 0:
            print(self)

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
    ) -> PreferenceBatches:
        """The batches of a DPOConfig (or the like) whose values are known only when the script runs.

        `processes`: how many processes the GPU run was launched with; `own`: what the script gives its trainer instead.
        """
        settings = dict(
            epochs=training_args.num_train_epochs,
            max_steps=training_args.max_steps,
            batch_size=training_args.per_device_train_batch_size * processes,
            accumulation=training_args.gradient_accumulation_steps,
            processes=processes,
            seed=training_args.seed,
            data_seed=training_args.data_seed,
            max_length=training_args.max_length,
            num_proc=training_args.dataset_num_proc,
            drop_last=training_args.dataloader_drop_last,
            sampling=order.sampling_of(training_args),
            **cls._own_arguments(training_args),
        )
        return cls(dataset, tokenizer, mesh, **settings | told(**own))

    @classmethod
    def _own_arguments(cls, training_args: Any) -> dict[str, Any]:
        return {
            "truncation_mode": training_args.truncation_mode,
            "max_prompt_length": getattr(training_args, "max_prompt_length", None),
            "max_completion_length": getattr(training_args, "max_completion_length", None),
            "pad_token": training_args.pad_token,
            "pad_to_multiple_of": training_args.pad_to_multiple_of,
            "whole_micro_batches": any(name.startswith("aot") for name in training_args.loss_type),
        }

    def __iter__(self) -> Iterator[Batch]:
        return placed(self._made(), self._mesh)

    def _made(self) -> Iterator[Batch]:
        self._fed = []
        for group in itertools.islice(self._groups(), self.steps):
            self._fed.append(0)
            shares = [share for batch in group for share in self._shares(batch)]
            made = len(group) if self._release.divides_by_made else self._deal.accumulation
            weights = np.full(len(shares), len(group) / made / len(shares))
            for batch in self._assemble(self._rows, group, weights, self._micro_batches, self.length):
                self._fed[-1] += int(np.sum(batch["segment_ids"][self._counted] > 0))
                yield batch

    @property
    def _counted(self) -> slice:
        """The rows of a batch whose tokens are counted."""
        return slice(None)

    def counts(self, first: int, until: int) -> dict[str, float]:
        """TRL's `num_tokens` behind step `until` of a run from `first` on; nothing where its release logged none."""
        logged = self.lines.counts_tokens and until <= len(self._fed)
        return {"num_tokens": float(sum(self._fed[first:until]))} if logged else {}

    def _groups(self) -> Iterator[list[np.ndarray]]:
        """The micro-steps of each optimizer step; before transformers 4.52 an epoch's rest made no step of its own."""
        if self._release.rounds_steps_up:
            return self._deal.groups(order.epoch_orders(self.rows, **self._sampling))
        return older.older_groups(
            (self._deal.batches(epoch) for epoch in order.epoch_orders(self.rows, **self._sampling)),
            self._deal.accumulation,
            steps=self.steps,
            rows=self.rows,
            transformers=self._release.transformers,
        )

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return self._rows.longest

    def __repr__(self) -> str:
        slots = self._micro_batches * self.batch_size * self.length * self.steps_per_epoch
        filled = sum(len(ids) for row in self._rows.ids for ids in row)
        return (
            f"{self.rows} rows, {self.steps} steps of {self._deal.step_rows} rows as {self._micro_batches} x "
            f"{self.batch_size // self.documents} x {self.documents} x {self.length} tokens, "
            f"{1 - min(filled / slots, 1):.0%} padding"
        )

    def evaluation(self, dataset: Any, *, batch_size: int = 8) -> PreferenceEvaluation:
        """Batches of an evaluation set; the mean of their losses, which Tunix reports, is HF's `eval_loss`.

        `batch_size`: rows of one evaluation batch of the GPU run over all its processes (per_device_eval_batch_size ×
        processes).
        """
        prepared = self._prepare(dataset, self._deal.batch_size // self._deal.processes)
        return PreferenceEvaluation(self, prepared, batch_size)

    def _prepare(self, dataset: Any, per_process: int) -> Documents:
        return preference_rows.pairs(
            dataset, self._tokenizer, max_length=self._max_length, release=self._release, **self._cut
        )

    def _nll_tokens(self, rows: Documents, row: int, kept: slice) -> int:
        """Tokens that the negative log-likelihood of a row's first document is a mean over."""
        return self._answer_tokens(rows, row, 0, kept)

    def _answer_tokens(self, rows: Documents, row: int, document: int, kept: slice) -> int:
        labels = rows.labels[row][document][kept]
        return int(np.sum(labels[1:] != IGNORED)) + self._wraps(rows, row, document, labels)

    def _divisible(self, pairs: int) -> int:
        """The smallest batch of whole pairs that holds `pairs` and that the mesh divides."""
        unit = math.lcm(divisible(1, self._mesh), self.documents)
        return -(-pairs * self.documents // unit) * unit

    def _fixed_length(self, prepared: Documents) -> int:
        return rounded(prepared.longest, self._multiple)

    def _shares(self, batch: np.ndarray) -> list[np.ndarray]:
        """The rows of a micro-step by the process of the GPU run that had them."""
        size = math.ceil(len(batch) / self._deal.processes)
        return [batch[start : start + size] for start in range(0, len(batch), size)]

    def _assemble(
        self,
        rows: Documents,
        group: list[np.ndarray],
        weights: np.ndarray,
        count: int,
        length: int,
        pairs: int = 0,
        kept: int | None = None,
    ) -> Iterator[Batch]:
        """`count` micro-batches out of the micro-steps of a group; `weights`: what each process's share of one
        counts in the loss, `kept`: how many rows of the last count in logged means, None for all."""
        pairs = pairs or self.batch_size // self.documents
        shares = [share for batch in group for share in self._shares(batch)]
        processes = np.concatenate([np.full(len(share), i % self._deal.processes) for i, share in enumerate(shares)])
        picked = np.concatenate(shares)
        cut = [[*self._kept(rows, share)] for share in shares]
        parts_of = [*itertools.chain.from_iterable(cut)]
        tokens = [
            sum(self._nll_tokens(rows, int(row), own[0]) for row, own in zip(share, parts, strict=True))
            for share, parts in zip(shares, cut, strict=True)
        ]
        sizes = [len(share) for share in shares]
        alike = _scales(sizes, tokens, np.full(len(shares), 1 / len(shares))) | {"scale": _means(group, kept)}
        beside = named(alike | self._answer_shares(rows, group, picked, parts_of))
        counted = _scales(sizes, tokens, weights) | beside
        if self._whole:
            ends = np.cumsum([len(batch) for batch in group])
            spans = [(int(end - len(batch)), int(end)) for batch, end in zip(group, ends, strict=True)]
        else:
            spans = [(at, min(at + pairs, len(picked))) for at in range(0, count * pairs, pairs)]
        spans += [(0, 0)] * (count - len(spans))
        for start, stop in spans:
            batch = self._empty(pairs * self.documents, length)
            batch |= {name: np.zeros(pairs * self.documents, np.float32) for name in beside}
            for place, at in enumerate(range(start, max(start, stop))):
                self._fill(batch, place, rows, int(picked[at]), parts_of[at])
                here = slice(place * self.documents, (place + 1) * self.documents)
                for name, values in counted.items():
                    batch[name][here] = values[at] * count
                if self._whole:
                    batch["processes"][here] = processes[at]
            yield batch

    def _answer_shares(
        self, rows: Documents, group: list[np.ndarray], picked: np.ndarray, kept: list[tuple[slice, ...]]
    ) -> dict[str, np.ndarray]:
        if not self.lines.logits:
            return {}
        tokens = [
            [self._answer_tokens(rows, int(row), place, part) for place, part in enumerate(parts)]
            for row, parts in zip(picked, kept, strict=True)
        ]
        dealt = [[len(share) for share in self._shares(batch)] for batch in group]
        return answer_shares(self.lines, dealt, np.array(tokens), self._kinds(rows, picked))

    def _kinds(self, rows: Documents, picked: np.ndarray) -> np.ndarray:
        """Which answers are told apart, (rows, documents): 0 for chosen ones, 1 for rejected, -1 for none."""
        return np.tile(np.arange(2), (len(picked), 1))

    def _empty(self, rows: int, length: int) -> Batch:
        shape = (rows, length)
        batch = {
            "input_tokens": np.full(shape, self._padding, np.int32),
            "labels": np.full(shape, IGNORED, np.int32),
            "positions": np.tile(np.arange(length, dtype=np.int32), (rows, 1)),
            "segment_ids": np.zeros(shape, np.int32),
            "scale": np.zeros(rows, np.float32),
            "nll_scale": np.zeros(rows, np.float32),
        }
        batch |= {"processes": np.full(rows, -1, np.int32)} if self._whole else {}
        columns = self._rows.columns is not None
        batch |= {"attended": np.ones(shape, bool)} if columns or self._release.pairs_split else {}
        wraps = columns or self._rows.wraps is not None
        return batch | ({"wraps": np.zeros(rows, bool)} if wraps else {})

    def _kept(self, rows: Documents, share: np.ndarray) -> Iterator[tuple[slice, ...]]:
        """What the padded batch of a process's rows kept of each of their documents under their release."""
        if rows.sizes is not None and len(share):
            for lost in lost_ends([rows.sizes[int(row)] for row in share], self._max_length):
                yield tuple(slice(0, -1 if end else None) for end in lost)
            return
        start = 0
        if rows.columns is not None and len(share):
            start = lost_starts([tuple(map(len, rows.ids[int(row)])) for row in share], rows.columns)
        yield from ((slice(start, None),) * self.documents for _ in share)

    def _wraps(self, rows: Documents, row: int, document: int, labels: np.ndarray) -> bool:
        """Whether the last token of a document predicts its first one; `labels` as the batch keeps them."""
        if rows.columns is not None:
            return len(labels) > 0 and bool(labels[0] != IGNORED)
        return rows.wraps is not None and rows.wraps[row][document]

    def _fill(self, batch: Batch, place: int, rows: Documents, row: int, kept: tuple[slice, ...]) -> None:
        documents = zip(rows.ids[row], rows.labels[row], kept, strict=True)
        for at, (ids, labels, part) in enumerate(documents, place * self.documents):
            ids, labels = ids[part], labels[part]
            batch["input_tokens"][at, : len(ids)] = ids
            batch["labels"][at, : len(ids)] = labels
            batch["segment_ids"][at, : len(ids)] = 1
            if self._release.pairs_split:  # the last token's place doesn't matter: it predicts nothing
                batch["attended"][at, : len(ids)] = ids != self._tokenizer.eos_token_id
            if "wraps" in batch:
                batch["wraps"][at] = self._wraps(rows, row, at - place * self.documents, labels)
            if rows.columns is not None and batch["wraps"][at] and len(ids) < rows.columns:
                see_from_last_column(batch, at, len(ids), rows.columns)


def _scales(sizes: list[int], tokens: list[int], weights: np.ndarray) -> dict[str, np.ndarray]:
    """`scale` and `nll_scale` of the rows of processes' shares, `sizes` of them, each of which counts its weight."""
    return {
        "scale": np.repeat(weights / sizes, sizes),
        "nll_scale": np.repeat(weights / np.maximum(tokens, 1), sizes),
    }


def _means(group: list[np.ndarray], kept: int | None) -> np.ndarray:
    """What a row counts in the mean over micro-steps of each one's own mean, of the first `kept` rows of the last."""
    counted = [len(batch) for batch in group[:-1]] + [kept or len(group[-1])]
    each = [np.arange(len(batch)) < rows for batch, rows in zip(group, counted, strict=True)]
    return np.concatenate(each) / np.repeat(counted, [len(batch) for batch in group]) / len(group)

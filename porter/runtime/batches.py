"""The batches of a GPU run, for a TPU mesh.

The same rows in the same order and with the same number to an optimizer step as TRL's SFTTrainer; only the split of
a step into micro-batches follows the mesh, which changes nothing, because the loss is summed over the whole step.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from . import order, rows, tokenization
from . import step_packing as packer
from .evaluation_batches import EvaluationBatches
from .packing import Span
from .rows import Rows

LENGTH_MULTIPLE = 128  # what a TPU's matrix units and attention kernels like; padding has no effect on the loss

Batch = dict[str, np.ndarray]


class SFTBatches:
    """Batches of supervised fine-tuning, token for token those of TRL 1.16's SFTTrainer.

    Iterating (again and again, always the same) gives `accumulation` micro-batches for each of `steps` optimizer steps:
    dicts of NumPy arrays `input_tokens`, `labels` (-100 = not trained), `positions` and `segment_ids` (0 =
    padding, 1 and up the documents of a row), all (B, T) int32, and `scale` (B,) float32, the micro-batches
    over the trained tokens of the step, see `token_loss`. Packed runs add `documents` (B,) int32, how many a row holds.
    B is the smallest multiple of the mesh's fsdp axis that holds `batch_size` rows, the missing ones untrained. T is
    the longest row in multiples of 128, and fixed, so that the step compiles once. With several JAX processes each gets
    its own consecutive part of B.

    `buckets`: lengths that a micro-batch may have instead of T, each compiled once: the smallest that holds its rows.
    A step's rows are then dealt by length, longest first, which changes nothing: its loss is their sum. `micro_batch`:
    rows to make B from instead of `batch_size`; the step keeps its rows. `step_packing`: (B, T) that a micro-batch may
    have, each compiled once. A step's rows are then packed, several in one where they fit, into as few micro-batches as
    hold every step, which changes nothing either: each keeps its positions and sees itself alone.

    `batch_size` is the rows of one micro-step of the GPU run over all its `processes`, `accumulation` its
    gradient_accumulation_steps; the other arguments are SFTConfig's, with its names and defaults (`epochs`:
    num_train_epochs, `text_field`: dataset_text_field, `skip_prepare`: dataset_kwargs["skip_prepare_dataset"],
    `drop_last`: dataloader_drop_last, `sampling`: train_sampling_strategy).

    `dataset` is a `datasets.Dataset`, a list of dicts, or an IterableDataset, of which `max_steps` steps are read.
    Where such a stream is too short and its end doesn't fill a step, those rows are left out (the Trainer lets their
    gradients run into the next pass).
    The tokenizer gets the pad token, end token and chat template asked for, as it does from SFTTrainer.
    """

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
        text_field: str = "text",
        formatting_func: Callable[[Any], str] | None = None,
        completion_only_loss: bool | None = None,
        assistant_only_loss: bool = False,
        packing: bool = False,
        packing_strategy: str = "bfd",
        eval_packing: bool | None = None,
        padding_free: bool = False,
        shuffle_dataset: bool = False,
        chat_template_path: str | None = None,
        eos_token: str | None = None,
        pad_token: str | None = None,
        truncation_mode: str = "keep_start",
        num_proc: int | None = None,
        skip_prepare: bool = False,
        drop_last: bool = False,
        sampling: str = "random",
        average_tokens_across_devices: bool = True,
        pad_to_multiple_of: int | str | None = None,
        buckets: Sequence[int] | None = None,
        micro_batch: int | None = None,
        step_packing: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        first = tokenization.first_row(dataset)
        if completion_only_loss is None:  # TRL lets the training set decide for evaluation too
            completion_only_loss = "prompt" in first and "completion" in first
        if batch_size % processes:
            raise ValueError(f"batch_size={batch_size} rows can't be dealt evenly to {processes} processes")
        tokenization.set_up_tokenizer(
            tokenizer, chat_template_path=chat_template_path, eos_token=eos_token, pad_token=pad_token
        )
        self._tokenizer = tokenizer
        self._mesh = mesh
        self._plan = functools.partial(
            tokenization.plan,
            tokenizer=tokenizer,
            text_field=text_field,
            formatting_func=formatting_func,
            completion_only_loss=completion_only_loss,
            assistant_only_loss=assistant_only_loss,
            max_length=max_length,
            truncation_mode=truncation_mode,
            skip_prepare=skip_prepare,
        )
        self._max_length = max_length
        self._skip_prepare = skip_prepare
        self._padding_free = padding_free
        self._packing = packing_strategy if packing else None
        self._eval_packing = self._packing if eval_packing is None else packing_strategy if eval_packing else None
        self._num_proc = num_proc
        self._shuffle_seed = seed if shuffle_dataset else None
        multiple = pad_to_multiple_of if isinstance(pad_to_multiple_of, int) else 1  # "auto" is nothing on a GPU
        self._multiple = math.lcm(LENGTH_MULTIPLE, multiple)
        self._epoch_order = functools.partial(
            order.epoch_order, sampling=sampling, seed=seed if data_seed is None else data_seed
        )
        self._deal = functools.partial(order.micro_batches, processes=processes, drop_last=drop_last)
        self._processes = processes
        self._source = (batch_size, accumulation)
        self._tokens_of_all = average_tokens_across_devices or processes == 1

        self._rows = self._prepare(dataset, first, self._packing, max_steps)
        self.rows = len(self._rows)
        epoch_rows = self.rows if self._rows.epochs is None else len(self._rows.epochs[0])
        self.steps_per_epoch = self._steps_of(epoch_rows)
        if not self.steps_per_epoch:
            raise ValueError(f"{self.rows} rows don't fill one batch of {batch_size}, and drop_last drops a short one")
        self.steps = max_steps if max_steps > 0 else math.ceil(epochs * self.steps_per_epoch)
        self.batch_size = divisible(micro_batch or batch_size, mesh)
        self._micro_batches = math.ceil(batch_size * accumulation / self.batch_size)
        self.length = self._fixed_length(self._rows)
        self.buckets = () if buckets is None else self._lengths(buckets)
        self.shapes = () if step_packing is None else self._shapes(step_packing)
        if self.shapes:
            if buckets is not None or micro_batch is not None:
                raise ValueError("step_packing says what shapes micro-batches have: leave out buckets and micro_batch")
            self._micro_batches = packer.fewest_micro_batches(self._step_lengths(), self.shapes)
            self.batch_size, self.length = (max(sizes) for sizes in zip(*self.shapes, strict=True))
        self.accumulation = self._micro_batches if self._micro_batches > 1 else None
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
        formatting_func: Callable[[Any], str] | None = None,
    ) -> SFTBatches:
        """The batches of an SFTConfig whose values are known only when the script runs.

        `processes`: how many processes the GPU run was launched with.
        """
        return cls(
            dataset,
            tokenizer,
            mesh,
            epochs=training_args.num_train_epochs,
            max_steps=training_args.max_steps,
            batch_size=training_args.per_device_train_batch_size * processes,
            accumulation=training_args.gradient_accumulation_steps,
            processes=processes,
            seed=training_args.seed,
            data_seed=training_args.data_seed,
            max_length=training_args.max_length,
            text_field=training_args.dataset_text_field,
            formatting_func=formatting_func,
            completion_only_loss=training_args.completion_only_loss,
            assistant_only_loss=training_args.assistant_only_loss,
            packing=training_args.packing,
            packing_strategy=training_args.packing_strategy,
            eval_packing=training_args.eval_packing,
            padding_free=training_args.padding_free,
            shuffle_dataset=training_args.shuffle_dataset,
            chat_template_path=training_args.chat_template_path,
            eos_token=training_args.eos_token,
            pad_token=training_args.pad_token,
            truncation_mode=training_args.truncation_mode,
            num_proc=training_args.dataset_num_proc,
            skip_prepare=bool((training_args.dataset_kwargs or {}).get("skip_prepare_dataset")),
            drop_last=training_args.dataloader_drop_last,
            sampling=training_args.train_sampling_strategy,
            average_tokens_across_devices=training_args.average_tokens_across_devices,
            pad_to_multiple_of=training_args.pad_to_multiple_of,
        )

    def __iter__(self) -> Iterator[Batch]:
        for picked, scale in self._steps():
            if self.shapes:
                yield from self._packed(picked, scale)
                continue
            yield from self._assemble(self._rows, picked, scale, self.batch_size, self.length, self._packing)

    def __repr__(self) -> str:
        size = f"{self.batch_size} x {' or '.join(map(str, self.buckets or (self.length,)))}"
        slots = self._micro_batches * self.batch_size * self.length * self.steps_per_epoch
        if self.buckets:
            epoch = itertools.islice(self._steps(), self.steps_per_epoch)
            starts = range(0, self._micro_batches * self.batch_size, self.batch_size)
            parts = (picked[start:][: self.batch_size] for picked, _ in epoch for start in starts)
            slots = self.batch_size * sum(self._bucket(self._rows, part) for part in parts)
        if self.shapes:
            size = f"({' or '.join(f'{rows} x {length}' for rows, length in self.shapes)})"
            found = [self._placed(lengths) for lengths in itertools.islice(self._step_lengths(), self.steps_per_epoch)]
            slots = sum(rows * length for step in found for (rows, length), _ in step)
        filled = int(self._rows.lengths.sum())
        return (
            f"{self.rows} rows, {self.steps} steps of {math.prod(self._source)} rows "
            f"as {self._micro_batches} x {size} tokens, "
            f"{1 - min(filled / slots, 1):.0%} padding"
        )

    def evaluation(self, dataset: Any, *, batch_size: int = 8, packing: bool | None = None) -> EvaluationBatches:
        """Batches of an evaluation set; the mean of their losses, which Tunix reports, is HF's `eval_loss`.

        `batch_size`: rows of one evaluation batch of the GPU run over all its processes (per_device_eval_batch_size ×
        processes). `packing` None: as `eval_packing` says, else as in training.
        """
        strategy = self._eval_packing if packing is None else (self._packing or "bfd") if packing else None
        if rows.is_stream(dataset):
            dataset = list(dataset)
        prepared = self._prepare(dataset, tokenization.first_row(dataset), strategy)
        return EvaluationBatches(self, prepared, batch_size, divisible(batch_size, self._mesh), strategy)

    def _prepare(self, dataset: Any, first: Any, packing: str | None, max_steps: int = -1) -> Rows:
        preparation = self._plan(first, packing=packing is not None, padding_free=self._flattens(packing))
        if rows.is_stream(dataset):
            if max_steps <= 0:
                raise ValueError("a streamed dataset has no length: set max_steps")
            if self._shuffle_seed is not None:
                raise ValueError("shuffle_dataset=True on a streamed dataset: call dataset.shuffle(seed=...) instead")
            return rows.stream(
                dataset,
                preparation,
                packing=packing,
                max_length=self._max_length,
                steps=max_steps,
                step_rows=math.prod(self._source),
                steps_of=functools.partial(self._steps_of, full=True),
            )
        return rows.prepare(
            dataset,
            preparation,
            packing=packing,
            max_length=self._max_length,
            skip_prepare=self._skip_prepare,
            shuffle_seed=self._shuffle_seed,
            num_proc=self._num_proc,
        )

    def _steps_of(self, epoch_rows: int, *, full: bool = False) -> int:
        """Optimizer steps of an epoch; a short last group is a step too, unless only full ones count."""
        batch_size, accumulation = self._source
        steps, rest = divmod(len(self._deal(np.arange(epoch_rows), batch_size)), accumulation)
        return steps + (rest > 0 and not full)

    def _flattens(self, packing: str | None) -> bool:
        """Whether TRL's collator runs the rows together, which masks the first label of every document."""
        return self._padding_free or packing in ("bfd", "bfd_split")

    def _fixed_length(self, prepared: Rows) -> int:
        return -(-int(prepared.lengths.max()) // self._multiple) * self._multiple

    def _epochs(self) -> Iterator[np.ndarray]:
        if self._rows.epochs is not None:
            yield from self._rows.epochs
            return
        epoch = 0
        while True:
            yield self._epoch_order(self.rows, epoch=epoch)
            epoch += 1

    def _steps(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows of every optimizer step and their scale, (rows,) each."""
        done = 0
        batch_size, accumulation = self._source
        for epoch in self._epochs():
            dealt = self._deal(epoch, batch_size)
            for start in range(0, len(dealt), accumulation):
                if done == self.steps:
                    return
                group = dealt[start : start + accumulation]
                if self._rows.epochs is not None and len(group) < accumulation:
                    continue  # the end of a stream makes no step; HF adds its gradients to the next pass's first
                done += 1
                picked, scale = np.concatenate(group), self._scale(group)
                if self.buckets:
                    by_length = np.argsort(-self._rows.lengths[picked], kind="stable")
                    picked, scale = picked[by_length], scale[by_length]
                yield picked, scale

    def _lengths(self, buckets: Sequence[int]) -> tuple[int, ...]:
        """`buckets` as lengths that batches have: rounded up as T is, none longer than T, and T itself."""
        wrong = [bucket for bucket in buckets if bucket < 1]
        if wrong:
            raise ValueError(f"buckets={list(buckets)}: a row can't be {wrong[0]} tokens long")
        rounded = {-(-int(bucket) // self._multiple) * self._multiple for bucket in buckets}
        return (*sorted(bucket for bucket in rounded if bucket < self.length), self.length)

    def _bucket(self, prepared: Rows, picked: np.ndarray, length: int = 0) -> int:
        """The smallest bucket that holds these rows; without buckets `length`."""
        longest = int(prepared.lengths[picked].max()) if len(picked) else 0
        return next((bucket for bucket in self.buckets if longest <= bucket <= (length or bucket)), length)

    def _scale(self, group: list[np.ndarray]) -> np.ndarray:
        trained = self._rows.trained
        processes = 1 if self._tokens_of_all else self._processes
        ranks = np.concatenate([np.arange(len(batch)) * processes // self._source[0] for batch in group])
        totals = np.bincount(ranks, weights=trained[np.concatenate(group)], minlength=processes)
        return self._micro_batches / (processes * np.maximum(totals, 1.0)[ranks])

    def _assemble(
        self, prepared: Rows, picked: np.ndarray, scale: np.ndarray, batch_size: int, length: int, packing: str | None
    ) -> Iterator[Batch]:
        """The picked rows as micro-batches of `batch_size`, of which this JAX process gets its part."""
        count = self._micro_batches if prepared is self._rows else math.ceil(len(picked) / batch_size)
        share = batch_size // jax.process_count()
        own = share * jax.process_index()
        for first in range(own, count * batch_size, batch_size):
            whole = picked[first - own : first - own + batch_size]  # all processes agree on the length
            batch = self._empty(share, self._bucket(prepared, whole, length), packing)
            for place, (row, weight) in enumerate(
                zip(picked[first : first + share], scale[first : first + share], strict=True)
            ):
                self._fill(batch, place, prepared, prepared.rows[int(row)], self._flattens(packing))
                batch["scale"][place] = weight
            yield batch

    def _packed(self, picked: np.ndarray, scale: np.ndarray) -> Iterator[Batch]:
        """A step's rows as micro-batches of `shapes`, of which this JAX process gets its part."""
        for (batch_size, length), places in self._placed(self._rows.lengths[picked].tolist()):
            share = batch_size // jax.process_count()
            first = share * jax.process_index()
            batch = self._empty(share, length, self._packing)
            for place, together in enumerate(places[first : first + share]):
                spans = [span for one in together for span in self._rows.rows[int(picked[one])]]
                self._fill(batch, place, self._rows, spans, mask_first=True)
                batch["scale"][place] = scale[0]
            yield batch

    def _placed(self, lengths: list[int]) -> list[tuple[packer.Shape, packer.Bins]]:
        found = packer.packed(lengths, self.shapes, self._micro_batches)
        assert found is not None, "fewest_micro_batches has seen every step"
        return found

    def _step_lengths(self) -> Iterator[list[int]]:
        """Lengths of every step's rows."""
        return (self._rows.lengths[picked].tolist() for picked, _ in self._steps())

    def _shapes(self, shapes: Sequence[tuple[int, int]]) -> tuple[packer.Shape, ...]:
        """`step_packing` as shapes that the mesh divides, of rounded lengths."""
        if not self._tokens_of_all:
            raise ValueError(
                "step_packing puts rows of several GPU processes together, which average_tokens_across_devices=False "
                "weighs apart: use buckets instead"
            )
        wrong = [shape for shape in shapes if len(shape) != 2 or min(shape) < 1]
        if wrong or not shapes:
            raise ValueError(f"step_packing={list(shapes)}: expected pairs (rows, tokens)")
        return tuple((divisible(r, self._mesh), -(-int(t) // self._multiple) * self._multiple) for r, t in shapes)

    def _empty(self, batch_size: int, length: int, packing: str | None) -> Batch:
        shape = (batch_size, length)
        batch = {
            "input_tokens": np.full(shape, self._tokenizer.pad_token_id, np.int32),
            "labels": np.full(shape, tokenization.IGNORED, np.int32),
            "positions": np.tile(np.arange(length, dtype=np.int32), (batch_size, 1)),
            "segment_ids": np.zeros(shape, np.int32),
            "scale": np.zeros(batch_size, np.float32),
        }
        if packing in ("bfd", "bfd_split") or self._rows.tokens.parts is not None or self.shapes:
            batch["documents"] = np.zeros(batch_size, np.int32)
        return batch

    def _fill(self, batch: Batch, place: int, prepared: Rows, spans: Sequence[Span], mask_first: bool) -> None:
        at = 0
        for number, (start, stop) in enumerate(spans, 1):
            end = at + stop - start
            batch["input_tokens"][place, at:end] = prepared.tokens.ids[start:stop]
            batch["labels"][place, at:end] = prepared.tokens.labels[start:stop]
            batch["segment_ids"][place, at:end] = number
            if at:  # positions start over with every document; padding counts on
                batch["positions"][place, at:] -= batch["positions"][place, at]
            if mask_first and stop > start:
                batch["labels"][place, at] = tokenization.IGNORED
            at = end
        if "documents" in batch:
            batch["documents"][place] = len(spans)


def divisible(rows_of_batch: int, mesh: jax.sharding.Mesh) -> int:
    """The smallest batch that holds the rows and that the mesh divides on every JAX process.

    Tunix checks the *local* rows against the whole fsdp axis (tunix/sft/sharding_utils.py) and replicates what it
    doesn't divide.
    """
    unit = dict(mesh.shape).get("fsdp", 1) * jax.process_count()
    return -(-rows_of_batch // unit) * unit

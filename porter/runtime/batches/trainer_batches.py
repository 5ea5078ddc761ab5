"""The batches of transformers' Trainer from a tokenised dataset and its collator, for a TPU mesh.

The collator is called with the rows that each GPU process gave it, in the GPU run's order; only the split of an
optimizer step into micro-batches follows the mesh, which changes nothing, because the loss is summed over the step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..facts import releases
from ..hosts.global_arrays import placed
from ..rows.collated_rows import CollatedRows
from ..rows.collation import CollatedRow, Collator, without_sight
from ..rows.rows import is_stream
from . import accumulation as older
from . import order
from .arrays import Batch, divisible, smoothed
from .collated_shape import Shape
from .deal_rows import Deal
from .evaluation_sets import EvaluationSets, by_name
from .steps import said_of_untrained
from .trainer_evaluation import TrainerEvaluation


class TrainerBatches:
    """Batches of a causal language model, token for token those of transformers 5.12's Trainer.

    Iterating (again and again, always the same) gives `accumulation` micro-batches for each of `steps` optimizer steps:
    dicts of NumPy arrays `input_tokens`, `labels` (-100 = not trained), `positions` and `segment_ids` (0 =
    padding, 1 a row), all (B, T) int32, and `scale` (B,) float32, the micro-batches over the trained tokens of the
    step, see `token_loss`. Where padding is trained on, or tokens are predicted from padding, there is also `attended`
    (B, T) bool, which tokens may be seen, and `sees_row`, `averages_row` or `averages_past` (B, T) bool, which padding
    sees all or most of its row, where torch's attention let it, or `sees_nothing`, where flash attention left it out.
    (Padding so far behind the text that a sliding
    window holds none of it sees other tokens than in torch.) B is the smallest multiple of the mesh's fsdp axis
    that holds `batch_size` rows, the missing ones untrained. T is the longest row in multiples of 128, so that the
    step compiles once. With several JAX processes the arrays are global ones, see `global_arrays`, and B is the
    same.

    `dataset` is a `datasets.Dataset`, any object with `__len__` and `__getitem__`, or a stream, of which `max_steps`
    steps are read. `collator` makes a batch with `input_ids` and `labels` of a list of rows: transformers' collators
    return NumPy arrays here, a collator of your own may return torch tensors.

    `batch_size` is the rows of one micro-step of the GPU run over all its `processes`, `accumulation` its
    gradient_accumulation_steps; the other arguments are TrainingArguments', with its names and defaults (`epochs`:
    num_train_epochs, `drop_last`: dataloader_drop_last, `sampling`: train_sampling_strategy). `shuffling`: how its
    release of accelerate drew a random order, see `order`. `mean_over`: the loss
    is the mean over all trained tokens of the step, or ("micro_batch") the mean of the GPU run's micro-batches of each
    one's own mean, as a loop computes it that backpropagates `loss / accumulation`, and the Trainer of a multimodal
    model, which divides by as many as the step has from `transformers` 4.53 on, at an epoch's end fewer.
    `label_smoothing`: label_smoothing_factor, which `token_loss` finds in the batches; transformers' LabelSmoother
    takes the mean of each micro-batch, and a step's loss is their sum, which isn't divided by their number. `inputs`:
    what of the collator's batch the model is called with, keyword → key (of a tuple its place, "*" where it is one
    tensor), where that isn't all of it by its name: with {"labels": "input_ids"} in it padding trains, too, but where
    `unlabelled` says: {"attention_mask": 0} takes the labels away where the batch's attention_mask is 0. `micro_batch`:
    rows to make B from instead of `batch_size`; the step keeps its rows.
    `transformers` ("4.40.2"): the steps and the mean of that release: before 4.52 an epoch's rest made no step of its
    own, before 4.46 the loss was the mean of the micro-batches' means, and from then to 5.9 the tokens that a step's
    loss is divided by took in each row's first one, which nothing predicts. `unsloth_counts` ("2026.8.19"): this
    release of Unsloth loaded the model, and counts them itself, see `releases.Release`. `attention`: the source's
    attn_implementation where it isn't that of the release, of a loop with its transformers, ("sdpa", "4.44.2"); what is
    predicted from padding in front of a row depends on it (`Release.of_no_token`).
    """

    def __init__(
        self,
        dataset: Any,
        collator: Collator,
        mesh: jax.sharding.Mesh,
        *,
        epochs: float = 3.0,
        max_steps: int = -1,
        batch_size: int = 8,
        accumulation: int = 1,
        processes: int = 1,
        seed: int = 42,
        data_seed: int | None = None,
        drop_last: bool = False,
        sampling: str = "random",
        shuffling: str = "seeded",
        remove_unused_columns: bool = True,
        average_tokens_across_devices: bool = True,
        mean_over: str = "step",
        label_smoothing: float = 0.0,
        inputs: Mapping[str, str | int] | None = None,
        unlabelled: Mapping[str | int, int] | None = None,
        micro_batch: int | None = None,
        transformers: str | None = None,
        unsloth_counts: str | None = None,
        attention: str | tuple[str | None, str] | None = None,
    ) -> None:
        self._release = releases.release(None, transformers, unsloth_counts)
        self.transformers = self._release.transformers  # the source's release
        self._of_no_token = self._release.of_no_token(attention)
        if not self._release.counts_tokens:
            mean_over = "micro_batch"
        if mean_over not in ("step", "micro_batch"):
            raise ValueError(f"mean_over={mean_over!r}: it is 'step' or 'micro_batch'")
        self._mean_over = mean_over
        self._divides_by_made = bool(transformers) and self._release.divides_by_made
        self._label_smoothing = label_smoothing
        self._mesh = mesh
        self._collated = CollatedRows(
            collator,
            remove_unused_columns=remove_unused_columns,
            inputs=inputs,
            unlabelled=unlabelled,
            of_no_token=self._of_no_token,
        )
        self._deal = Deal(batch_size=batch_size, accumulation=accumulation, processes=processes, drop_last=drop_last)
        self._tokens_of_all = average_tokens_across_devices or processes == 1
        self._passes: list[np.ndarray] | None = None
        if is_stream(dataset):
            dataset, self._passes = self._read_stream(dataset, max_steps)
        self._dataset = self._collated.columns(dataset)
        self._sampling: dict[str, Any] = {
            "sampling": sampling,
            "seed": order.seed_of(self._release, seed, data_seed, sampling),
            "shuffling": shuffling,
        }
        if sampling == "group_by_length":
            own = batch_size // processes * accumulation
            self._sampling |= {"lengths": _lengths(self._dataset), "group": own}

        self.rows = len(self._dataset)
        if not self.rows:
            raise ValueError("the dataset is empty: there is nothing to train on")
        epoch_rows = self.rows if self._passes is None else len(self._passes[0])
        self.steps_per_epoch = self._deal.steps(epoch_rows, full=self._passes is not None)
        self._deal.check(self.rows, self.steps_per_epoch)
        self.gpu_batches = self._deal.count(epoch_rows)  # an epoch's, of each process: len(get_train_dataloader())
        if not self._rounds_up:
            self.uneven_epochs = self.steps_per_epoch != self._deal.steps(epoch_rows, full=True)
            self.steps_per_epoch = max(self._deal.steps(epoch_rows, full=True), 1)
        self.steps = max_steps if max_steps > 0 else math.ceil(epochs * self.steps_per_epoch)
        self.trained_rows = self._deal.trained_rows(self.rows, epochs, max_steps)
        self.batch_size = divisible(micro_batch or batch_size, mesh)
        largest = (
            accumulation if self._rounds_up else max(sum(len(made) for made, _ in parts) for parts in self._parts())
        )
        self._micro_batches = math.ceil(batch_size * largest / self.batch_size)
        self.accumulation = self._micro_batches if self._micro_batches > 1 else None
        self._shape = Shape.of(self._collated.all(self._dataset), self._of_no_token)
        if jax.process_index() == 0:
            print(self)

    @classmethod
    def from_args(
        cls,
        training_args: Any,
        dataset: Any,
        collator: Collator,
        mesh: jax.sharding.Mesh,
        *,
        processes: int = 1,
        mean_over: str = "step",
        shuffling: str = "seeded",
        transformers: str | None = None,
        unsloth_counts: str | None = None,
        attention: str | tuple[str | None, str] | None = None,
    ) -> TrainerBatches:
        """The batches of TrainingArguments whose values are known only when the script runs.

        `processes`: how many processes the GPU run was launched with; `transformers`: the release to step like;
        `unsloth_counts`: the release of Unsloth that loaded the model; `attention`: its model's attn_implementation.
        """
        return cls(
            dataset,
            collator,
            mesh,
            epochs=training_args.num_train_epochs,
            max_steps=training_args.max_steps,
            batch_size=training_args.per_device_train_batch_size * processes,
            accumulation=training_args.gradient_accumulation_steps,
            processes=processes,
            seed=training_args.seed,
            data_seed=training_args.data_seed,
            drop_last=training_args.dataloader_drop_last,
            sampling=order.sampling_of(training_args),
            remove_unused_columns=training_args.remove_unused_columns,
            average_tokens_across_devices=training_args.average_tokens_across_devices,
            label_smoothing=training_args.label_smoothing_factor,
            mean_over=mean_over,
            shuffling=shuffling,
            transformers=transformers,
            unsloth_counts=unsloth_counts,
            attention=attention,
        )

    @property
    def length(self) -> int:
        """T, the tokens of a row."""
        return self._shape.length

    def __iter__(self) -> Iterator[Batch]:
        return placed(self._made(0, self.steps), self._mesh)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The micro-batches of one epoch, the first of which is 0, whatever `steps` says."""
        first = number * self.steps_per_epoch
        return placed(self._made(first, first + self.steps_per_epoch), self._mesh)

    def _made(self, first: int, stop: int) -> Iterator[Batch]:
        for parts in itertools.islice(self._parts(), first, stop):
            rows: list[CollatedRow] = []
            weights: list[np.ndarray] = []
            for batches, over in parts:
                found, places = self._collate(self._dataset, batches, self._deal.batch_size)
                whole = self._collate(self._dataset, over, self._deal.batch_size) if over is not batches else None
                rows += found
                weights.append(self._weights(found, places, whole))
            scale = self._micro_batches * np.concatenate(weights)
            yield from self._assemble(rows, scale, self._micro_batches, self.batch_size, self._shape)

    @property
    def _rounds_up(self) -> bool:
        """Whether an epoch's short last group is a step of its own; of a stream's passes only full steps count."""
        return self._release.rounds_steps_up or self._passes is not None

    @property
    def _means_over_step(self) -> bool:
        """Whether the GPU run's loss is one mean over the trained tokens of a step."""
        return self._mean_over == "step" and not self._label_smoothing

    def _parts(self) -> Iterator[list[older.Part]]:
        """The micro-steps of each optimizer step, in parts whose loss was divided by the tokens of others."""
        if self._passes is not None:
            return ([(group, group)] for group in self._deal.groups(self._passes, full=True))
        orders = order.epoch_orders(self.rows, **self._sampling)
        if self._rounds_up:
            return ([(group, group)] for group in self._deal.groups(orders))
        parts = older.older_parts(
            (self._deal.batches(epoch) for epoch in orders),
            self._deal.accumulation,
            steps=self.steps,
            rows=self.rows,
            transformers=self._release.transformers,
        )
        if self._means_over_step:
            return parts
        return ([(group, group)] for step in parts if (group := [batch for batches, _ in step for batch in batches]))

    def _weights(
        self,
        rows: Sequence[CollatedRow],
        places: np.ndarray,
        whole: tuple[Sequence[CollatedRow], np.ndarray] | None = None,
    ) -> np.ndarray:
        """What a token of each row counts in the step's loss, (n,); of a mean over the tokens of `whole`, where these
        are others."""
        processes = self._deal.processes
        if self._mean_over == "micro_batch":
            made = int(places[:, 0].max()) + 1 if self._divides_by_made else self._deal.accumulation
            together, means = places[:, 0] * processes + places[:, 1], made * processes
        elif self._label_smoothing:
            together, means = places[:, 0] * processes + places[:, 1], 1 if self._tokens_of_all else processes
        else:
            together, means = (np.zeros(len(rows), int), 1) if self._tokens_of_all else (places[:, 1], processes)
        counts_firsts = self._release.counts_firsts and self._means_over_step
        attended = self._release.counts_attended and self._means_over_step
        of_all, all_places = (rows, places) if whole is None else whole
        counted = [row.labelled if counts_firsts else row.seen if attended else row.trained for row in of_all]
        ranks = together if whole is None else all_places[:, 1] * (not self._tokens_of_all)
        totals = np.bincount(ranks, weights=counted, minlength=int(together.max()) + 1)
        return 1 / (means * np.maximum(totals, 1.0)[together])

    def __repr__(self) -> str:
        slots = self._micro_batches * self.batch_size * self.length * self.steps_per_epoch
        return (
            f"{self.rows} rows, {self.steps} steps of {self._deal.step_rows} rows "
            f"as {self._micro_batches} x {self.batch_size} x {self.length} tokens, "
            f"{1 - min(self._shape.tokens / slots, 1):.0%} padding"
            f"{'; some tokens are predicted for or from padding, as on the GPU' if self._shape.masked else ''}"
            f"{said_of_untrained(self._shape.untrained, by_step=self._means_over_step)}"
        )

    def evaluation(self, dataset: Any, *, batch_size: int = 8) -> TrainerEvaluation | EvaluationSets:
        """Batches of an evaluation set; the mean of their losses, which Tunix reports, is HF's `eval_loss`.

        Of a dict of sets by their names: the batches of each, for an `rt.MetricsTrainer` or `rt.evaluate`.

        `batch_size`: rows of one evaluation batch of the GPU run over all its processes (per_device_eval_batch_size ×
        processes).
        """

        def one(dataset: Any) -> TrainerEvaluation:
            return TrainerEvaluation(
                self, self._collated.columns(list(dataset) if is_stream(dataset) else dataset), batch_size
            )

        made: TrainerEvaluation | EvaluationSets = by_name(dataset, one)
        return made

    def _evaluated(self, dataset: Any, batch_size: int) -> np.ndarray:
        """An evaluation's rows in the order of the GPU run's, (n,)."""
        if not self._release.evaluates_by_length or "lengths" not in self._sampling:
            return np.arange(len(dataset))
        group = batch_size // self._deal.processes
        return order.evaluated(_lengths(dataset), group, self._sampling["seed"], self.rows)

    def _collate(
        self, dataset: Any, group: Sequence[np.ndarray], batch_size: int
    ) -> tuple[list[CollatedRow], np.ndarray]:
        """Rows of consecutive micro-steps as the processes collated them; micro-step and process of each, (n, 2)."""
        rows: list[CollatedRow] = []
        places: list[tuple[int, int]] = []
        share = batch_size // self._deal.processes
        for number, batch in enumerate(group):
            for rank, start in enumerate(range(0, len(batch), share)):
                found = self._collated.rows(dataset, batch[start : start + share])
                rows += found
                places += [(number, rank)] * len(found)
        return rows, np.array(places, int).reshape(-1, 2)

    def _read_stream(self, dataset: Any, max_steps: int) -> tuple[list[Any], list[np.ndarray]]:
        """The rows of the first `max_steps` steps of a stream, and their numbers pass by pass."""
        if max_steps <= 0:
            raise ValueError("a streamed dataset has no length: set max_steps")
        self._passes = []
        rows: list[Any] = []
        steps = 0
        while steps < max_steps:
            if self._passes and hasattr(dataset, "set_epoch"):
                dataset.set_epoch(len(self._passes))  # a shuffled stream gives another order in every pass
            first = len(rows)
            rows += itertools.islice(dataset, (max_steps - steps) * self._deal.step_rows)
            made = self._deal.steps(len(rows) - first, full=True)
            if not made:
                raise ValueError(f"a pass over the streamed dataset gives {len(rows) - first} rows, less than a step")
            self._passes.append(np.arange(first, len(rows)))
            steps += made
        return rows, self._passes

    def _assemble(
        self, rows: Sequence[CollatedRow], scale: np.ndarray, count: int, batch_size: int, shape: Shape
    ) -> Iterator[Batch]:
        """The rows as `count` micro-batches of `batch_size`."""
        if len(rows) > count * batch_size:
            raise ValueError(
                f"the collator makes {len(rows)} rows of the {count * batch_size} that a step has room for"
            )
        for row in rows:
            shape.include(row)
        for first in range(0, count * batch_size, batch_size):
            batch = smoothed(shape.empty(batch_size), self._label_smoothing)
            for place, row in enumerate(rows[first : first + batch_size]):
                stop = len(row.ids)
                batch["input_tokens"][place, :stop] = row.ids
                batch["labels"][place, :stop] = row.labels
                batch["segment_ids"][place, :stop] = 1
                if "attended" in batch:
                    batch["attended"][place, :stop] = row.attended
                if shape.blind in batch:
                    batch[shape.blind][place, :stop] = without_sight(row.attended, shape.of_no_token)
                batch["scale"][place] = scale[first + place]
            yield batch


def _lengths(dataset: Any) -> list[int]:
    return [len(dataset[number]["input_ids"]) for number in range(len(dataset))]  # a torch Dataset ends no loop itself

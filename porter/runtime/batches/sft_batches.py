"""The batches of a GPU run, for a TPU mesh.

The same rows in the same order and with the same number to an optimizer step as TRL's SFTTrainer; only the split of
a step into micro-batches follows the mesh, which changes nothing, because the loss is summed over the whole step.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from ..facts import releases
from ..facts.lengths import LENGTH_MULTIPLE, rounded
from ..facts.releases.lines import Lines
from ..hosts.global_arrays import placed
from ..losses.for_metrics import named
from ..rows import tokenization, tokenizer_setup
from ..rows.packing import Shuffles
from ..rows.response_masks import LabelMask
from ..rows.rows import Rows, is_stream
from ..rows.sft.sft_rows import SFTRows
from . import order
from . import step_packing as packer
from .arrays import Batch, by_token, divisible, empty, fill, filled_up, smoothed, with_noise
from .config_arguments import arguments_of, told
from .deal_rows import Deal
from .evaluation_batches import EvaluationBatches
from .evaluation_sets import EvaluationSets, by_name
from .micro_batch_shapes import lengths_of, shapes_of
from .steps import Step, Steps


class SFTBatches:
    """Batches of supervised fine-tuning, token for token those of TRL 1.16's SFTTrainer, or of the release `trl`.

    Iterating (again and again, always the same) gives `accumulation` micro-batches for each of `steps` optimizer steps:
    dicts of NumPy arrays `input_tokens`, `labels` (-100 = not trained), `positions` and `segment_ids` (0 =
    padding, 1 and up the documents of a row), all (B, T) int32, and `scale` (B,) float32, the micro-batches
    over the trained tokens of the step, see `token_loss`. Packed runs add `documents` (B,) int32, how many a row holds,
    releases whose log lines have entropy and accuracy what a token counts in these, see `for_metrics`.
    B is the smallest multiple of the mesh's fsdp axis that holds `batch_size` rows, the missing ones untrained. T is
    the longest row in multiples of 128, and fixed, so that the step compiles once. With several JAX processes the
    arrays are global ones, see `global_arrays`, and B is the same.

    `buckets`: lengths that a micro-batch may have instead of T, each compiled once: the smallest that holds its rows.
    A step's rows are then dealt by length, longest first, which changes nothing: its loss is their sum. `micro_batch`:
    rows to make B from instead of `batch_size`; the step keeps its rows. `step_packing`: (B, T) that a micro-batch may
    have, each compiled once. A step's rows are then packed, several in one where they fit, into as few micro-batches as
    hold every step, which changes nothing either: each keeps its positions and sees itself alone.

    `batch_size` is the rows of one micro-step of the GPU run over all its `processes`, `accumulation` its
    gradient_accumulation_steps; the other arguments are SFTConfig's, with its names and defaults (`epochs`:
    num_train_epochs, `text_field`: dataset_text_field, `skip_prepare`: dataset_kwargs["skip_prepare_dataset"],
    `drop_last`: dataloader_drop_last, `sampling`: train_sampling_strategy, `label_smoothing`: label_smoothing_factor,
    which `token_loss` finds in the batches; a step's loss is then the sum of its micro-batches' own means).
    `mean_over`: "micro_batch" where each micro-batch of a process takes its own mean, and a step the mean of these, as
    transformers has it for multimodal models, and had it for Mistral in 4.46 and 4.47. `neftune_noise_alpha`: noise on
    the embeddings, in training alone, of the size that the GPU run's padding gives it.

    `dataset` is a `datasets.Dataset`, a list of dicts, or an IterableDataset, of which `max_steps` steps are read.
    Where such a stream is too short and its end doesn't fill a step, those rows are left out (the Trainer lets their
    gradients run into the next pass).
    The tokenizer gets the end token and chat template asked for, and a pad token where SFTTrainer of that release gave
    it one (before 0.16.1, and from 1.1 on).

    `attention`: the GPU run's attn_implementation. Without flash attention TRL 0.19 to 0.23.0 lets the documents of a
    packed row see each other; so do these batches, but for those of several rows, which TRL runs together, too.
    `trl` ("0.8.6"): prepare the data as that release did, see `releases.Release`: which tokens are trained, end and
    start tokens, what `formatting_func` gets, packing; and the loss's mean by the transformers of its day, or by
    `transformers`. `label_mask` masks tokens besides, see `CompletionOnly`; `add_special_tokens` and
    `append_concat_token` are those of `dataset_kwargs` before 0.15. `unsloth` ("2026.8.19"): tokenise texts as this
    release of Unsloth does, see `unsloth_rows`; `unsloth_counts`: this release loaded the model, and its Trainer
    divides a step's loss by the tokens that are predicted, see `releases.Release`. `draws`: Python's `random`, where
    the script has seeded it and drawn from it: TRL before 0.15 shuffles packed rows with it. Without it they are
    shuffled as those of a script that called `set_seed(seed)` and drew nothing.
    """

    KIND = "sft"

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
        text_field: str | None = None,
        formatting_func: Callable[[Any], Any] | None = None,
        completion_only_loss: bool | None = None,
        assistant_only_loss: bool = False,
        label_mask: LabelMask | None = None,
        packing: bool = False,
        packing_strategy: str = "bfd",
        eval_packing: bool | None = None,
        padding_free: bool = False,
        attention: str | None = None,
        shuffle_dataset: bool = False,
        chat_template_path: str | None = None,
        eos_token: str | None = None,
        pad_token: str | None = None,
        truncation_mode: str = "keep_start",
        num_proc: int | None = None,
        skip_prepare: bool = False,
        drop_last: bool = False,
        sampling: str = "random",
        shuffling: str = "seeded",
        average_tokens_across_devices: bool = True,
        pad_to_multiple_of: int | str | None = None,
        mean_over: str = "step",
        label_smoothing: float = 0.0,
        neftune_noise_alpha: float | None = None,
        buckets: Sequence[int] | None = None,
        micro_batch: int | None = None,
        step_packing: Sequence[tuple[int, int]] | None = None,
        trl: str | None = None,
        transformers: str | None = None,
        add_special_tokens: bool = True,
        append_concat_token: bool = True,
        unsloth: str | None = None,
        unsloth_counts: str | None = None,
        draws: Shuffles | None = None,
    ) -> None:
        self._release = releases.release(trl, transformers, unsloth_counts)
        self.transformers = self._release.transformers  # the source's release
        self.lines = Lines("" if unsloth or unsloth_counts else self.KIND, self._release)  # Unsloth's has no metrics
        self._fed: list[int] = []  # tokens of each optimizer step
        first = tokenization.first_row(dataset)
        if completion_only_loss is None:  # TRL lets the training set decide for evaluation too
            completion_only_loss = "prompt" in first and ("completion" in first or not self._release.since(0, 22))
        self._deal = Deal(
            batch_size=batch_size,
            accumulation=accumulation,
            processes=processes,
            drop_last=drop_last,
        )
        self._padding = tokenizer_setup.set_up_tokenizer(
            tokenizer,
            chat_template_path=chat_template_path,
            eos_token=eos_token,
            pad_token=pad_token,
            gives_padding=self._release.gives_padding,
            takes_unknown=self._release.takes_unknown_padding,
        )
        self._tokenizer = tokenizer
        self._mesh = mesh
        strategy = self._release.packing_strategy(packing_strategy)
        self._strategy = strategy
        self._packing = strategy if packing else None
        self._eval_packing = self._packing if eval_packing is None else strategy if eval_packing else None
        self._sft_rows = SFTRows(
            self._release,
            tokenizer,
            max_length=max_length,
            text_field=text_field,
            formatting_func=formatting_func,
            completion_only_loss=completion_only_loss,
            assistant_only_loss=assistant_only_loss,
            label_mask=label_mask,
            packing=self._packing,
            padding_free=padding_free,
            attention=attention,
            shuffle_dataset=shuffle_dataset,
            truncation_mode=truncation_mode,
            num_proc=num_proc,
            skip_prepare=skip_prepare,
            add_special_tokens=add_special_tokens,
            append_concat_token=append_concat_token,
            seed=seed,
            unsloth=unsloth,
            draws=draws,
        )
        self._seed = seed
        multiple = pad_to_multiple_of if isinstance(pad_to_multiple_of, int) else 1  # "auto" is nothing on a GPU
        self._pad_to_multiple_of = multiple
        self._multiple = math.lcm(LENGTH_MULTIPLE, multiple)

        self._rows = self._prepare(dataset, self._packing, max_steps, trains=True)
        self.rows = len(self._rows)
        self.gpu_batches = self._deal.count(self.rows)  # an epoch's, of each process: len(get_train_dataloader())
        self._tokens_of_all = average_tokens_across_devices or processes == 1
        if mean_over not in ("step", "micro_batch"):
            raise ValueError(f"mean_over={mean_over!r}: it is 'step' or 'micro_batch'")
        self._label_smoothing, self._mean_over = label_smoothing, mean_over
        self.neftune_noise_alpha = neftune_noise_alpha
        self._steps = Steps(
            self._rows,
            self._deal,
            self._release,
            epochs=epochs,
            max_steps=max_steps,
            seed=order.seed_of(self._release, seed, data_seed, sampling),
            sampling=sampling,
            shuffling=shuffling,
            tokens_of_all=average_tokens_across_devices,
            micro_batches_apart="mean" if mean_over == "micro_batch" else "sum" if label_smoothing > 0 else "",
            lines=self.lines,
            width=np.sum if self._sft_rows.flattens else lambda lengths: rounded(np.max(lengths), multiple),
        )
        self.steps_per_epoch, self.steps = self._steps.per_epoch, self._steps.count
        self.trained_rows = self._deal.trained_rows(self.rows, epochs, max_steps)
        self.uneven_epochs = self._steps.uneven
        self.batch_size = divisible(micro_batch or batch_size, mesh)
        self._micro_batches = math.ceil(batch_size * self._steps.largest / self.batch_size)
        self.length = self._fixed_length(self._rows)
        self.buckets = () if buckets is None else lengths_of(buckets, self.length, self._multiple)
        self.shapes = () if step_packing is None else shapes_of(step_packing, mesh, self._multiple)
        if self.shapes:
            apart = label_smoothing and accumulation * processes > 1
            if not self._tokens_of_all or not self._release.counts_tokens or apart:
                raise ValueError(
                    "step_packing puts rows of several GPU processes together, which average_tokens_across_devices="
                    "False (label_smoothing, or transformers before 4.46) weighs apart: use buckets instead"
                )
            if neftune_noise_alpha:
                raise ValueError("step_packing puts rows together whose NEFTune noise differs: use buckets instead")
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
        **own: Any,
    ) -> SFTBatches:
        """The batches of an SFTConfig (or TrainingArguments) whose values are known only when the script runs.

        `processes`: how many processes the GPU run was launched with. `own` are arguments as of this class that the
        script gives elsewhere: `formatting_func`, `trl`, what it told its trainer; None is nothing said.
        """
        return cls(
            dataset,
            tokenizer,
            mesh,
            batch_size=training_args.per_device_train_batch_size * processes,
            processes=processes,
            **arguments_of(training_args) | told(**own),
        )

    def __iter__(self) -> Iterator[Batch]:
        return placed(self._made(), self._mesh)

    def _made(self) -> Iterator[Batch]:
        draws = np.random.RandomState(self._seed & 0xFFFFFFFF)
        self._fed = []
        for picked, scale, widths, shares in self._by_length():
            self._fed.append(int(self._rows.lengths[picked].sum()))
            if self.shapes:
                yield from self._packed(picked, scale, shares)
                continue
            made = self._assemble(self._rows, picked, scale, self.batch_size, self.length, self._packing, shares)
            if self.neftune_noise_alpha:
                slots = self._micro_batches * self.batch_size
                made = with_noise(made, slots, self.neftune_noise_alpha, widths, draws)
            yield from made

    def counts(self, first: int, until: int) -> dict[str, float]:
        """TRL's `num_tokens` behind step `until` of a run from `first` on; nothing where its release logged none."""
        logged = self.lines.counts_tokens and until <= len(self._fed)
        return {"num_tokens": float(sum(self._fed[first:until]))} if logged else {}

    def __repr__(self) -> str:
        size = f"{self.batch_size} x {' or '.join(map(str, self.buckets or (self.length,)))}"
        slots = self._micro_batches * self.batch_size * self.length * self.steps_per_epoch
        if self.buckets:
            epoch = itertools.islice(self._by_length(), self.steps_per_epoch)
            starts = range(0, self._micro_batches * self.batch_size, self.batch_size)
            parts = (picked[start:][: self.batch_size] for picked, *_ in epoch for start in starts)
            slots = self.batch_size * sum(self._bucket(self._rows, part) for part in parts)
        if self.shapes:
            size = f"({' or '.join(f'{rows} x {length}' for rows, length in self.shapes)})"
            found = [self._placed(lengths) for lengths in itertools.islice(self._step_lengths(), self.steps_per_epoch)]
            slots = sum(rows * length for step in found for (rows, length), _ in step)
        filled = int(self._rows.lengths.sum())
        return (
            f"{self.rows} rows, {self.steps} steps of {self._deal.step_rows} rows "
            f"as {self._micro_batches} x {size} tokens, "
            f"{1 - min(filled / slots, 1):.0%} padding"
            f"{'' if self._packing or self._sft_rows.padding_free else self._steps.firsts_lost(self._tokenizer)}"
            f"{self._steps.untrained()}"
        )

    @property
    def train_dataset(self) -> Sequence[dict[str, list[int]]]:
        """The rows as they are trained, `input_ids` and `labels` each: what the trainer's `train_dataset` holds."""
        return self._rows.prepared()

    def evaluation(
        self, dataset: Any, *, batch_size: int = 8, packing: bool | None = None
    ) -> EvaluationBatches | EvaluationSets:
        """Batches of an evaluation set; the mean of their losses, which Tunix reports, is HF's `eval_loss`.

        Of a dict of sets by their names: the batches of each, for an `rt.MetricsTrainer` or `rt.evaluate`.

        `batch_size`: rows of one evaluation batch of the GPU run over all its processes (per_device_eval_batch_size ×
        processes). `packing` None: as `eval_packing` says, else as in training.
        """
        strategy = self._eval_packing if packing is None else self._strategy if packing else None

        def one(dataset: Any) -> EvaluationBatches:
            prepared = self._prepare(list(dataset) if is_stream(dataset) else dataset, strategy)
            return EvaluationBatches(self, prepared, batch_size, divisible(batch_size, self._mesh), strategy)

        made: EvaluationBatches | EvaluationSets = by_name(dataset, one)
        return made

    def _prepare(self, dataset: Any, packing: str | None, max_steps: int = -1, *, trains: bool = False) -> Rows:
        full = functools.partial(self._deal.steps, full=True)
        return self._sft_rows.of(dataset, packing, max_steps, self._deal.step_rows, full, trains=trains)

    def _fixed_length(self, prepared: Rows) -> int:
        return rounded(prepared.lengths.max(), self._multiple)

    def _by_length(self) -> Iterator[Step]:
        """Every optimizer step with the scale of its rows as their share; the longest rows first where lengths
        differ."""
        for picked, share, widths, shares in self._steps:
            if self.buckets:
                longest = np.argsort(-self._rows.lengths[picked], kind="stable")
                picked, share, widths = picked[longest], share[longest], widths[longest]
                shares = {name: each[longest] for name, each in shares.items()}
            shares = {name: self._micro_batches * each for name, each in shares.items()}
            yield Step(picked, self._micro_batches * share, widths, shares)

    def _bucket(self, prepared: Rows, picked: np.ndarray, length: int = 0) -> int:
        """The smallest bucket that holds these rows; without buckets `length`."""
        longest = int(prepared.lengths[picked].max()) if len(picked) else 0
        return next((bucket for bucket in self.buckets if longest <= bucket <= (length or bucket)), length)

    def _assemble(
        self,
        prepared: Rows,
        picked: np.ndarray,
        scale: np.ndarray,
        batch_size: int,
        length: int,
        packing: str | None,
        shares: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> Iterator[Batch]:
        """The picked rows as micro-batches of `batch_size`; `shares`: what each counts in metrics."""
        count = self._micro_batches if prepared is self._rows else math.ceil(len(picked) / batch_size)
        for first in range(0, count * batch_size, batch_size):
            rows_of_batch = slice(first, first + batch_size)
            batch = self._empty(batch_size, self._bucket(prepared, picked[rows_of_batch], length), packing)
            for place, (row, weight) in enumerate(zip(picked[rows_of_batch], scale[rows_of_batch], strict=True)):
                fill(
                    batch,
                    place,
                    prepared.tokens,
                    prepared.rows[int(row)],
                    mask_first=self._sft_rows.masks_first,
                )
                batch["scale"][place] = weight
            yield batch | named({name: filled_up(each[rows_of_batch], batch_size) for name, each in shares.items()})

    def _packed(self, picked: np.ndarray, scale: np.ndarray, shares: Mapping[str, np.ndarray]) -> Iterator[Batch]:
        """A step's rows as micro-batches of `shapes`."""
        for (batch_size, length), places in self._placed(self._rows.lengths[picked].tolist()):
            batch = self._empty(batch_size, length, self._packing)
            for place, together in enumerate(places):
                spans = [span for one in together for span in self._rows.rows[int(picked[one])]]
                fill(batch, place, self._rows.tokens, spans, mask_first=True)
                batch["scale"][place] = scale[0]
            of_tokens = functools.partial(by_token, lengths=self._rows.lengths[picked], places=places, length=length)
            if self._mean_over != "step":
                batch["scale"] = of_tokens(scale)
            yield batch | named({name: of_tokens(each) for name, each in shares.items()})

    def _placed(self, lengths: list[int]) -> list[tuple[packer.Shape, packer.Bins]]:
        found = packer.packed(lengths, self.shapes, self._micro_batches)
        assert found is not None, "fewest_micro_batches has seen every step"
        return found

    def _step_lengths(self) -> Iterator[list[int]]:
        """Lengths of every step's rows."""
        return (self._rows.lengths[picked].tolist() for picked, *_ in self._steps)

    def _empty(self, batch_size: int, length: int, packing: str | None) -> Batch:
        packs = packing not in (None, "wrapped", "constant_length")
        documents = packs or self._rows.tokens.parts is not None or bool(self.shapes)
        batch = empty(batch_size, length, self._padding, documents=documents)
        return smoothed(batch, self._label_smoothing)

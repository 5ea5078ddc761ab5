"""From what a data collator returns to rows: token ids, labels, and which tokens may be attended to.

A collator pads its rows to one length, on either side; here the padding that nobody attends to and that nothing is
trained on goes again, because a TPU batch has a fixed length of its own.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

IGNORED = -100  # the label of a token that isn't trained, torch's ignore_index

Collator = Callable[..., Any]  # a mapping; a tuple or a list where `inputs` says its places

# Columns of a dataset that transformers' Trainer keeps: the arguments of a causal language model's forward, and the
# names that collators take for labels (Trainer._set_signature_columns_if_needed).
COLUMNS = frozenset(
    """
    input_ids attention_mask position_ids past_key_values inputs_embeds labels use_cache cache_position logits_to_keep
    output_attentions output_hidden_states return_dict token_type_ids label label_ids
    """.split()
)
# Collators of transformers that pad by `tokenizer.pad`, and the columns that it brings to one length.
_PADDED_BY_TOKENIZER = frozenset({"input_ids", "attention_mask", "token_type_ids", "special_tokens_mask"})
PADDED = dict.fromkeys(
    ("DataCollatorForLanguageModeling", "DataCollatorForSeq2Seq", "DataCollatorWithPadding"), _PADDED_BY_TOKENIZER
)
# What a collator may return that changes the loss and has no counterpart here.
_OTHER_INPUTS = ("inputs_embeds", "pixel_values", "input_features", "shift_labels", "encoder_outputs")


@dataclass(frozen=True)
class CollatedRow:
    """One row of a collated batch without idle padding.

    `ids` and `labels`: int32 (length,), -100 where a token isn't trained. `attended`: bool (length,), which tokens the
    later ones see; False for padding that stays because something is trained on it or from it.
    """

    ids: np.ndarray
    labels: np.ndarray
    attended: np.ndarray

    @property
    def trained(self) -> int:
        """Tokens that count in the loss: the first has nothing before it that could predict it."""
        return int(np.count_nonzero(self.labels[1:] != IGNORED))

    @property
    def seen(self) -> int:
        """Those of them that later ones attend to: trained padding left out."""
        return int(np.count_nonzero((self.labels[1:] != IGNORED) & self.attended[1:]))

    @property
    def blind(self) -> np.ndarray:
        """Padding in front of the row, which has no token to see: bool (length,)."""
        return without_sight(self.attended)

    @property
    def labelled(self) -> int:
        """Tokens with a label, the first included."""
        return int(np.count_nonzero(self.labels != IGNORED))


def without_sight(attended: np.ndarray, of_no_token: str = "nothing") -> np.ndarray:
    """Which tokens see none: padding in front of the row, or all of it where that is `unpadded`; bool (..., length)."""
    return ~attended if of_no_token == "unpadded" else ~np.logical_or.accumulate(attended, axis=-1)


def read_rows(batch: Mapping[str, Any], of_no_token: str = "nothing") -> list[CollatedRow]:
    """The rows of a collated batch of a causal language model; torch tensors are read too.

    `of_no_token`: `Release.of_no_token`. Where it lets padding in front see tokens, a row that is predicted from such
    padding keeps all of it, which is seen then.

    Documents run together, with `position_ids` that start over (DataCollatorWithFlattening) come out as rows of their
    own. ValueError where a batch has no labels, or holds what a Tunix model can't be given.
    """
    found = _read(batch)
    if found.positions is not None and not found.masked:
        return [document for row in zip(*found[:2], found.positions, strict=True) for document in _documents(*row)]
    return [
        _without_padding(*row, whole=of_no_token not in ("nothing", "unpadded")) for row in zip(*found[:3], strict=True)
    ]


def read_whole(batch: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Token ids, labels and which tokens are attended to, (rows, L) each, with all padding.

    ValueError as for `read_rows`, and for documents that are run together.
    """
    found = _read(batch)
    if found.positions is not None and not found.masked and np.any(np.diff(found.positions, axis=1) != 1):
        raise ValueError(
            "compute_metrics on rows that the collator runs together: the Trainer counts a batch of them as one row. "
            "Use a collator that pads for evaluation"
        )
    return found.ids.astype(np.int32), found.labels.astype(np.int32), found.attended


class _Read(NamedTuple):
    ids: np.ndarray
    labels: np.ndarray
    attended: np.ndarray
    positions: np.ndarray | None
    masked: bool  # the batch has an attention_mask


def _read(batch: Mapping[str, Any]) -> _Read:
    """A collated batch's arrays, (rows, L) each."""
    ids, labels = _array(batch, "input_ids"), _array(batch, "labels")
    if ids is None or labels is None:
        missing = "input_ids" if ids is None else "labels"
        raise ValueError(
            f"the collator returns no {missing} (it returns {', '.join(map(repr, batch))}): there is no loss "
            "without. Give the rows labels, or use DataCollatorForLanguageModeling(mlm=False)"
        )
    for name in _OTHER_INPUTS:
        if batch.get(name) is not None:
            raise ValueError(f"the collator returns {name!r}, which the port has no counterpart for")
    if ids.ndim != 2 or labels.shape != ids.shape:
        raise ValueError(f"expected input_ids and labels of one shape (rows, tokens), got {ids.shape}, {labels.shape}")
    mask, positions = _array(batch, "attention_mask"), _array(batch, "position_ids")
    if mask is not None and mask.shape != ids.shape:
        raise ValueError(f"expected an attention_mask of the shape {ids.shape} of input_ids, got {mask.shape}")
    attended = np.ones(ids.shape, bool) if mask is None else mask.astype(bool)
    if positions is not None:
        positions = np.broadcast_to(positions, ids.shape)
        for seen, at in zip(attended, positions, strict=True):
            if mask is not None and np.any(np.diff(at[seen]) != np.diff(np.flatnonzero(seen))):
                raise ValueError("position_ids that leave places out, beside an attention_mask, can't be kept")
    return _Read(ids, labels, attended, positions, mask is not None)


def only(
    collator: Collator, inputs: Mapping[str, str | int], unlabelled: Mapping[str | int, int] | None = None
) -> Collator:
    """`collator` with what of its batch the model is called with: `inputs`, keyword → key of the batch, place in one
    that is a tuple, or "*", the batch itself where it is one tensor.

    Labels are -100 where the part that `unlabelled` names has the value that it gives.
    """

    def collate(features: list[Any]) -> Mapping[str, Any]:
        batch = collator(features)
        if "*" in inputs.values():
            batch = {"*": batch}
        if not hasattr(batch, "get"):
            found = {name: batch[place] for name, place in inputs.items()}
        else:
            found = {name: batch[key] for name, key in inputs.items() if batch.get(key) is not None}
        for key, value in (unlabelled or {}).items():
            found["labels"] = np.where(np.asarray(batch[key]) == value, IGNORED, np.asarray(found["labels"]))
        return found

    return collate


def without_torch(collator: Collator) -> Collator:
    """A collator of transformers that returns NumPy arrays and reads tensors; the user's own collators as they are.

    ValueError for masked language modelling.
    """
    module = getattr(type(collator), "__module__", "")
    if getattr(collator, "__module__", "") == "transformers.data.data_collator" and hasattr(collator, "__name__"):
        return _reading_tensors(functools.partial(collator, return_tensors="np"))
    if module != "transformers.data.data_collator":
        return collator
    if getattr(collator, "mlm", False):
        raise ValueError("mlm=True trains a masked language model; a causal one takes mlm=False")
    plain = copy.copy(collator)
    plain.return_tensors = "np"  # type: ignore[attr-defined]
    return _reading_tensors(_without_texts(plain))


def _without_texts(collator: Collator) -> Collator:
    """A collator that pads by its tokenizer, which makes a tensor of each column that is left: NumPy makes one of texts
    and of lists of several lengths, too, where torch ends the run."""
    name = type(collator).__name__
    if name not in PADDED:
        return collator

    def collate(features: list[Any]) -> Mapping[str, Any]:
        first = features[0] if features and isinstance(features[0], Mapping) else {}
        labels = {"label" if "label" in first else "labels"} if name == "DataCollatorForSeq2Seq" else set()
        refused = [each for each in first if each not in PADDED[name] | labels and not _is_tensor(features, each)]
        if refused:
            raise ValueError(
                f"{name}: no tensor can be made of {', '.join(map(repr, refused))} (texts, or lists of several "
                "lengths), by torch neither: the source ends here, too. Leave such columns out of the rows with "
                "remove_columns=, or let remove_unused_columns be True"
            )
        return collator(features)

    return collate


def _is_tensor(features: list[Any], column: str) -> bool:
    """Whether torch makes a tensor of a column: numbers, in lists of one length."""
    try:
        return np.asarray([feature[column] for feature in features]).dtype.kind not in "OUS"
    except (KeyError, ValueError):  # a row without it, lists of several lengths
        return False


def _reading_tensors(collator: Collator) -> Collator:
    def collate(features: list[Any]) -> Mapping[str, Any]:
        return collator([_plain(feature) for feature in features])

    return collate


def _plain(feature: Any) -> Any:
    if not isinstance(feature, Mapping):
        return np.asarray(feature) if hasattr(feature, "detach") else feature
    return {name: np.asarray(value) if hasattr(value, "detach") else value for name, value in feature.items()}


def _array(batch: Mapping[str, Any], name: str) -> np.ndarray | None:
    value = batch.get(name)
    return None if value is None else np.asarray(value)


def _without_padding(ids: np.ndarray, labels: np.ndarray, attended: np.ndarray, *, whole: bool = False) -> CollatedRow:
    """The row from the first to the last token that is attended to, trained, or that one is predicted from.

    `whole`: with all padding where a token is predicted from what has none to see.
    """
    needed = attended.copy()
    trained = labels != IGNORED
    trained[:1] = False
    needed |= trained
    needed[:-1] |= trained[1:]
    row = CollatedRow(ids.astype(np.int32), labels.astype(np.int32), attended)
    if whole and np.any(row.blind[:-1] & trained[1:]):
        return row
    places = np.flatnonzero(needed)
    kept = slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0)
    return CollatedRow(ids[kept].astype(np.int32), labels[kept].astype(np.int32), attended[kept])


def _documents(ids: np.ndarray, labels: np.ndarray, positions: np.ndarray) -> list[CollatedRow]:
    """The documents of a row whose positions start over: transformers lets none see another."""
    starts = np.flatnonzero(np.diff(positions, prepend=positions[:1] - 1) != 1).tolist()
    if any(labels[start] != IGNORED for start in starts):
        raise ValueError("position_ids start over where a token is trained that only the document before could predict")
    parts = [slice(*bounds) for bounds in itertools.pairwise([0, *starts, len(ids)]) if bounds[0] < bounds[1]]
    return [_without_padding(ids[part], labels[part], np.ones(part.stop - part.start, bool)) for part in parts]

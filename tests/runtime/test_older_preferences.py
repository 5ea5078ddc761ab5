"""Pairs and completions of older releases against what those releases fed their models."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from porter.runtime.facts import releases
from porter.runtime.losses.for_metrics import for_metrics
from porter.runtime.losses.preference_losses import Inputs
from porter.runtime.losses.token_loss import model_inputs
from porter.runtime.preferences import preference_rows
from porter.runtime.preferences.kto_batches import KTOBatches
from porter.runtime.preferences.older_preferences import lost_ends
from porter.runtime.preferences.preference_batches import PreferenceBatches
from porter.runtime.preferences.text_pair_batches import CPOBatches, ORPOBatches

from ..fixtures import preference_styles, styles
from .byte_tokens import byte_tokenizer, trained_text

USER, OTHER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}
FOUND = json.loads((Path(__file__).parents[1] / "fixtures" / "preference_releases.json").read_text())


@pytest.mark.parametrize(
    ("trl", "style"),
    [(trl, style) for trl, found in FOUND.items() for style in found if not style.startswith(("comp", "text"))],
)
def test_pairs_are_the_releases_own(trl: str, style: str) -> None:
    _, rows, settings = preference_styles.STYLES[style]
    settings = {"truncation_mode": "keep_end", **settings}
    tokenizer, release = styles.make_tokenizer(), releases.release(trl)
    found = preference_rows.pairs(rows, tokenizer, release=release, **settings)
    hidden = tokenizer.eos_token_id if release.pairs_split else None
    seen = [[*(token for token in ids[:-1] if token != hidden), ids[-1]] for row in found.ids for ids in row]
    assert sorted(seen) == FOUND[trl][style]


@pytest.mark.parametrize(("trl", "end"), [("0.12.2", "</s>"), ("0.27.1", "</s>"), ("0.27.2", ""), ("0.28.0", "")])
def test_a_conversations_answer_ends_as_its_template_has_it_from_0_27_2_on(trl: str, end: str) -> None:
    tokenizer = byte_tokenizer("{% for m in messages %}{{ m['content'] }}|{% endfor %}")
    rows = [{"chosen": [USER, {"role": "assistant", "content": answer}], "rejected": [USER, OTHER]} for answer in "ab"]
    found = preference_rows.pairs(
        rows, tokenizer, max_length=None, truncation_mode="keep_end", release=releases.release(trl)
    )
    assert tokenizer.decode(found.ids[0][0]) == f"q|a|{end}"


@pytest.mark.parametrize(
    ("trl", "style"), [(trl, style) for trl, found in FOUND.items() for style in found if style.startswith("text")]
)
def test_orpos_pairs_are_the_releases_own(trl: str, style: str) -> None:
    _, rows, settings = preference_styles.STYLES[style]
    settings = {"truncation_mode": "keep_end", **settings}
    found = preference_rows.text_pairs(rows, styles.make_tokenizer(), release=releases.release(trl), **settings)
    assert sorted(ids.tolist() for row in found.ids for ids in row) == FOUND[trl][style]


@pytest.mark.parametrize("style", ["completions", "completions, cut"])
@pytest.mark.parametrize("trl", [trl for trl in FOUND if "completions" in FOUND[trl]])
def test_completions_are_the_releases_own(trl: str, style: str) -> None:
    _, rows, settings = preference_styles.STYLES[style]
    release = releases.release(trl)
    found = preference_rows.completions(
        rows, styles.make_tokenizer(), rotate=3, num_proc=None, release=release, **settings
    )
    own, theirs = ({tuple(ids.tolist()) for row in found.ids for ids in row}, {tuple(ids) for ids in FOUND[trl][style]})
    if release.shuffles_completions:  # other rows stand before each other: only the matched ones are known
        assert {tuple(row[0].tolist()) for row in found.ids} <= theirs
    else:
        assert own == theirs


def test_the_end_of_an_epoch_made_no_step_before_transformers_4_52(tiny_mesh: Any) -> None:
    rows = [{"prompt": f"q{i}", "chosen": "a", "rejected": "b"} for i in range(5)]
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 1, "accumulation": 2, "max_length": None}
    made = [PreferenceBatches(rows, byte_tokenizer(), tiny_mesh(1, 1), trl=trl, **settings) for trl in (None, "0.12.2")]
    assert [batches.steps for batches in made] == [6, 4]
    assert [len(list(batches)) for batches in made] == [batches.steps * (batches.accumulation or 1) for batches in made]
    (first, *_) = made[1]
    assert trained_text(byte_tokenizer(), first["labels"][0][:10]) == "·a</s>·"


@pytest.mark.parametrize(
    ("trl", "transformers", "rows", "counted"),
    [
        # Rows in micro-batches of 2, and by how many micro-batches of these the epoch's last step is divided.
        ("0.8.6", None, 5, 4),  # training_step of 4.39: accelerate divides by gradient_accumulation_steps
        ("0.13.0", None, 11, 4),  # which reads rows % 4 micro-batches last
        ("0.18.1", None, 5, 4),  # loss / args.gradient_accumulation_steps up to 4.52
        ("0.18.1", "4.53.0", 5, 3),  # loss / current_gradient_accumulation_steps
        (None, None, 5, 3),
    ],
)
@pytest.mark.parametrize("kind", [PreferenceBatches, ORPOBatches, CPOBatches, KTOBatches])
def test_a_short_step_is_divided_by_the_accumulation_before_transformers_4_53(
    kind: Any, trl: str | None, transformers: str | None, rows: int, counted: int, tiny_mesh: Any
) -> None:
    answers = {"completion": "a"} if kind is KTOBatches else {"chosen": "a", "rejected": "b"}
    dataset = [{"prompt": f"q{i}", "label": i > 2, **answers} for i in range(rows)]
    settings: dict[str, Any] = {"max_steps": rows // 5, "batch_size": 2, "accumulation": 4, "max_length": None}
    settings |= {"trl": trl, "transformers": transformers, "sampling": "sequential"}
    batches = kind(dataset, byte_tokenizer(bos_token="<|user|>"), tiny_mesh(1, 1), **settings)
    last = list(batches)[-batches._micro_batches :]
    scales = np.concatenate([batch["scale"][:: kind.documents] for batch in last]) / batches._micro_batches
    made = math.ceil(rows / 2 % 4)
    assert sorted(scales[scales > 0]) == pytest.approx([1 / 2 / counted] * (rows % 8 - 1) + [1 / counted])
    assert last[0]["scale"][0] / for_metrics(last[0])["scale"][0] == pytest.approx(made / counted)


def test_a_run_that_makes_no_step_is_refused(tiny_mesh: Any) -> None:
    rows = [{"prompt": f"q{i}", "chosen": "a", "rejected": "b"} for i in range(5)]
    with pytest.raises(ValueError, match=r"trains nothing: of 5 rows in 3 micro-batches transformers 4\.47 reads 1"):
        PreferenceBatches(rows, byte_tokenizer(), tiny_mesh(1, 1), batch_size=2, accumulation=4, trl="0.13.0")


@pytest.mark.parametrize("trl", ["0.7.1", "0.7.4"])
def test_prompt_and_answers_are_apart_before_0_7_5_and_their_end_tokens_are_hidden(trl: str, tiny_mesh: Any) -> None:
    tokenizer = byte_tokenizer(bos_token="<|user|>")
    rows = [{"prompt": "q</s>u", "chosen": "yes", "rejected": "no"}]
    settings: dict[str, Any] = {"batch_size": 1, "max_length": None, "trl": trl}
    (batch, *_) = PreferenceBatches(rows, tokenizer, tiny_mesh(1, 1), **settings)
    assert tokenizer.decode(batch["input_tokens"][0, :7]) == "q</s>uyes</s>"
    assert trained_text(tokenizer, batch["labels"][0, :8]) == "·yes</s>·"
    assert batch["attended"][0, :6].tolist() == [True, False, *[True] * 4]
    (joined, *_) = PreferenceBatches(rows, tokenizer, tiny_mesh(1, 1), **settings | {"trl": "0.7.5"})
    assert tokenizer.decode(joined["input_tokens"][0, :8]) == "<|user|>q</s>uyes</s>"
    assert "attended" not in joined


def circular(batch: Any, length: int) -> np.ndarray:
    """The targets of a row as DPOTrainer of 0.14 to 0.28 made them: tokens and mask moved on by one, in a circle.

    From 0.19 on its sums leave out what comes around."""
    tokens, answer = np.roll(batch["input_tokens"][0, :length], -1), np.roll(batch["labels"][0, :length] != -100, -1)
    return np.where(answer, tokens, -100)


@pytest.mark.parametrize("length", [128, 100])
@pytest.mark.parametrize(
    ("trl", "moves"),
    [("0.13.0", False), ("0.14.0", True), ("0.18.2", True), ("0.19.0", False), ("0.28.0", False), ("0.29.0", False)],
)
def test_an_answer_that_fills_its_row_wraps(trl: str, moves: bool, length: int, tiny_mesh: Any) -> None:
    rows = [{"prompt": "what?", "chosen": "a long answer " * 20, "rejected": "no"}]
    settings: dict[str, Any] = {"batch_size": 1, "max_length": length, "truncation_mode": "keep_end", "trl": trl}
    (batch, *_) = PreferenceBatches(rows, byte_tokenizer(), tiny_mesh(1, 1), **settings)
    assert batch["labels"].shape[1] == 128
    keys = ("input_tokens", "labels", "segment_ids", *(["wraps"] if "wraps" in batch else []))
    made = {key: jnp.asarray(batch[key]) for key in keys}
    none = jnp.zeros(())
    inputs = Inputs(positions=none, attention_mask=none, scale=none, nll_scale=none, **made)
    expected = circular(batch, length)
    assert (int(expected[-1]) != -100) == (trl != "0.13.0")  # which keeps the start, with the prompt in it
    if not moves:
        expected[-1] = -100
    found = np.asarray(inputs.targets)
    assert found[0, :length].tolist() == expected.tolist()
    assert (found[0, length:] == -100).all()
    prompted = np.asarray(inputs.targets)[1]  # the short answer behind its prompt
    assert (prompted != -100).sum() == (batch["labels"][1] != -100).sum()


def test_what_wraps_is_counted_where_a_mean_over_tokens_is_taken(tiny_mesh: Any) -> None:
    rows = [{"prompt": "what?", "chosen": "a long answer " * 20, "rejected": "no"}]
    settings: dict[str, Any] = {"batch_size": 1, "max_length": 50, "truncation_mode": "keep_end"}
    (old, *_), (new, *_) = (
        PreferenceBatches(rows, byte_tokenizer(), tiny_mesh(1, 1), trl=trl, **settings) for trl in ("0.18.1", None)
    )
    assert round(1 / old["nll_scale"][0]) == 50
    assert round(1 / new["nll_scale"][0]) == 49


def last_columns(rows: list[dict[str, str]], columns: int, tokenizer: Any) -> list[list[int]]:
    """What `concatenated_forward` of TRL 0.14 to 0.17 made of a micro-batch's documents with `keep_end`: padded behind,
    then cut to the batch's last columns; the answer's tokens of each, by document."""
    documents = []
    for answer in ("chosen", "rejected"):
        for row in rows:
            prompt, end = tokenizer(row["prompt"]).input_ids, tokenizer(row[answer] + "</s>").input_ids
            documents.append([*(-1 for _ in prompt), *end])
    width = max(map(len, documents))
    padded = [document + [-1] * (width - len(document)) for document in documents]
    return [[token for token in row[-columns:] if token != -1] for row in padded]


@pytest.mark.parametrize(
    ("trl", "by_column"), [("0.13.0", False), ("0.14.0", True), ("0.17.0", True), ("0.18.0", False)]
)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_last_columns_of_a_padded_batch_were_kept_in_0_14_to_0_17(
    trl: str, by_column: bool, batch_size: int, tiny_mesh: Any
) -> None:
    rows = [
        {"prompt": "a prompt " * 5, "chosen": "short", "rejected": "a longer answer"},
        {"prompt": "another ", "chosen": "one that is as long as the rows of the batch " * 2, "rejected": "no"},
    ]
    tokenizer = byte_tokenizer()
    settings: dict[str, Any] = {"batch_size": batch_size, "max_length": 64, "truncation_mode": "keep_end", "trl": trl}
    made = [*PreferenceBatches(rows, tokenizer, tiny_mesh(1, 1), sampling="sequential", epochs=1, **settings)]
    found = [row[row != -100].tolist() for batch in made for row in np.asarray(batch["labels"])]
    groups = [rows[at : at + batch_size] for at in range(0, 2, batch_size)]
    cut = [sorted(last_columns(group, 64, tokenizer)) for group in groups]
    expected = [answer for group in cut for answer in group]
    assert (sorted(filter(None, found)) == sorted(filter(None, expected))) == by_column


def test_a_batch_of_the_last_columns_averages_over_what_it_kept(tiny_mesh: Any) -> None:
    rows = [
        {"prompt": "a", "chosen": "an answer of which some is lost", "rejected": "no"},
        {"prompt": "another ", "chosen": "no", "rejected": "one that is much longer than the columns of the batch"},
    ]
    settings: dict[str, Any] = {"batch_size": 2, "max_length": 48, "truncation_mode": "keep_end", "trl": "0.16.0"}
    (batch,) = PreferenceBatches(rows, byte_tokenizer(), tiny_mesh(1, 1), sampling="sequential", epochs=1, **settings)
    chosen = np.asarray(batch["labels"])[[0, 2]]
    assert round(1 / batch["nll_scale"][0]) == (chosen != -100).sum()
    lost = np.asarray(batch["labels"])[:, 0] != -100  # of these documents the whole prompt
    assert np.asarray(batch["wraps"]).tolist() == lost.tolist() and lost.any()


def test_the_first_token_without_a_prompt_is_predicted_from_the_batch_s_last_column(tiny_mesh: Any) -> None:
    rows = [{"prompt": "a", "chosen": "an answer that is cut", "rejected": "a longer answer that fills all of them"}]
    settings: dict[str, Any] = {"batch_size": 1, "max_length": 32, "truncation_mode": "keep_end", "trl": "0.16.0"}
    (batch,) = PreferenceBatches(rows, byte_tokenizer(), tiny_mesh(1, 1), epochs=1, **settings)
    lengths = (np.asarray(batch["labels"]) != -100).sum(1).tolist()
    assert lengths[1] == 32 and 0 < lengths[0] < 31 and np.asarray(batch["wraps"]).tolist() == [True, True]
    seen, place = np.asarray(batch["attended"]), (0, lengths[0])
    assert np.argwhere(~seen).tolist() == [[*place]] and np.asarray(batch["segment_ids"]).sum(1)[0] == lengths[0] + 1
    assert np.asarray(batch["positions"])[place] == 31
    assert np.asarray(batch["input_tokens"])[place] == byte_tokenizer().pad_token_id
    mask = np.asarray(model_inputs({name: jnp.asarray(array) for name, array in batch.items()})["attention_mask"])
    assert np.flatnonzero(mask[place]).tolist() == [*range(lengths[0])]
    assert not mask[0, : lengths[0], lengths[0]].any()


@pytest.mark.parametrize(
    ("trl", "length", "expected"),
    [
        # What ORPOTrainer.tokenize_row of 0.28.0 gives: documents, and the tokens of their answers.
        ("0.28.0", 33, [(6, 2), (6, 2)]),
        ("1.14.2", 33, [(6, 2), (6, 2)]),
        ("0.28.0", 25, [(29, 25), (19, 15)]),
        ("1.15.0", 33, [(33, 29), (25, 21)]),
        (None, 33, [(33, 29), (25, 21)]),
    ],
)
def test_both_answers_are_cut_by_the_longer_one_in_0_28_to_1_14(
    trl: str | None, length: int, expected: list[tuple[int, int]]
) -> None:
    rows = [{"prompt": "q? ", "chosen": "a" * 30, "rejected": "b" * 20}]
    found = preference_rows.text_pairs(rows, styles.make_tokenizer(), max_length=length, release=releases.release(trl))
    sizes = [(len(ids), int((labels != -100).sum())) for ids, labels in zip(found.ids[0], found.labels[0], strict=True)]
    assert sizes == expected


@pytest.mark.parametrize(("trl", "kept"), [("0.29.0", 2), ("1.3.0", 2), ("1.8.0", 2), ("1.9.0", 1), (None, 1)])
def test_a_prompt_that_fills_max_length_leaves_from_1_9_on(trl: str | None, kept: int) -> None:
    """The `dataset.filter` of DPOTrainer and KTOTrainer; their collators cut what the older ones keep."""
    prompts, release = ("a prompt of more than eight", "q"), releases.release(trl)
    rows = [{"prompt": prompt, "chosen": "yes", "rejected": "no"} for prompt in prompts]
    settings: dict[str, Any] = {"max_length": 8, "release": release}
    found = preference_rows.pairs(rows, byte_tokenizer(), truncation_mode="keep_start", **settings)
    assert len(found) == kept
    single = preference_rows.completions(rows, byte_tokenizer(), rotate=None, num_proc=None, **settings)
    assert len(single) == len(single.desirable) == 2 * kept
    if kept == 2:
        assert [len(ids) for ids in found.ids[0]] == [8, 8]
        assert (np.concatenate(found.labels[0]) == -100).all()
        assert (np.concatenate(single.labels[0]) == -100).all() == release.since(1, 3)


def test_what_cuts_an_answer_to_nothing_is_said() -> None:
    rows = [{"prompt": "q? ", "chosen": "a" * 50, "rejected": "b" * 5}]
    with pytest.raises(ValueError, match="less the longer one's 51 tokens, which leaves nothing of one of 6"):
        preference_rows.text_pairs(rows, styles.make_tokenizer(), max_length=40, release=releases.release("0.28.0"))


@pytest.mark.parametrize(
    ("trl", "batch_size", "answers", "lost"),
    [
        # TRL 0.12.2's concatenated_forward on the same rows: the columns that it keeps of each micro-batch.
        ("0.12.2", 2, ("a", "b" * 30), True),  # the longest prompt beside the longest answer's: 30 of 39 columns filled
        ("0.12.2", 1, ("a", "b" * 30), False),
        ("0.13.0", 2, ("a", "b" * 30), False),
        ("0.12.2", 2, ("b" * 30, "a"), False),  # one pair has both: no column is empty
    ],
)
def test_the_longest_pair_of_a_micro_batch_lost_its_end_in_0_12(
    trl: str, batch_size: int, answers: tuple[str, str], lost: bool, tiny_mesh: Any
) -> None:
    prompts = ("a prompt: ", "q")
    rows = [
        {"prompt": prompt, "chosen": answer, "rejected": "no"} for prompt, answer in zip(prompts, answers, strict=True)
    ]
    settings: dict[str, Any] = {"batch_size": batch_size, "max_length": 64, "truncation_mode": "keep_end", "trl": trl}
    made = PreferenceBatches(rows, byte_tokenizer(), tiny_mesh(1, 1), epochs=1, **settings)
    texts = [trained_text(byte_tokenizer(), row) for batch in made for row in np.asarray(batch["labels"])]
    (longest,) = (text for text in texts if "bbb" in text)
    assert longest.strip("·").endswith("</s>") != lost
    assert sum("no</s>" in text for text in texts) == 2


def test_pairs_that_max_length_cuts_hide_the_lost_column() -> None:
    sizes = [(10, 12, 14), (1, 33, 5)]
    assert lost_ends(sizes, 33) == [(False, False), (True, False)]
    assert lost_ends(sizes, None) == lost_ends(sizes, 33)
    assert lost_ends(sizes, 32) == [(False, False), (False, False)]
    assert lost_ends([(10, 33, 14), (1, 20, 5)], None) == [(False, False), (False, False)]

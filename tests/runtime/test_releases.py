"""Rows and steps of older releases of TRL, against what those releases gave: tests/fixtures/make_trl_fixtures.py."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import IterableDataset

from porter.runtime.batches.sft_batches import SFTBatches
from porter.runtime.facts.field_tables import version_key
from porter.runtime.rows.response_masks import CompletionOnly, IgnorePadding, OwnLabels
from tests.fixtures import styles
from tests.runtime.byte_tokens import byte_tokenizer

RELEASES: dict[str, Any] = json.loads((Path(styles.__file__).parent / "trl_releases.json").read_text())
MESH = SimpleNamespace(shape={"fsdp": 1, "tp": 1})


def batches(trl: str, rows: Any, settings: dict[str, Any], pad: str, **run: Any) -> SFTBatches:
    settings = dict(settings)
    tokenizer = styles.make_tokenizer(pad)
    own = settings.pop("dataset_kwargs", {})
    if (response := settings.pop("response", None)) is not None:
        settings["label_mask"] = CompletionOnly(response, settings.pop("instruction", None), tokenizer=tokenizer)
    if "max_length" not in settings and version_key(trl) < (0, 15):
        settings["max_length"] = None
    return SFTBatches(rows, tokenizer, MESH, trl=trl, **{"epochs": 1, "batch_size": 1, **own, **settings, **run})  # type: ignore[arg-type]


def rows_of(made: SFTBatches) -> list[list[list[int]]]:
    found = []
    for batch in made:
        for ids, labels, segments in zip(batch["input_tokens"], batch["labels"], batch["segment_ids"], strict=True):
            length = int(np.count_nonzero(segments))
            found.append([ids[:length].tolist(), labels[:length].tolist()])
    return found


@pytest.mark.parametrize("trl", RELEASES)
@pytest.mark.parametrize("style", styles.STYLES)
def test_rows_are_those_of_the_release(trl: str, style: str) -> None:
    rows, settings, pad = styles.STYLES[style]
    wanted = RELEASES[trl]["styles"][style]
    if wanted is None or isinstance(wanted, str):
        pytest.skip(f"{trl}: {wanted or 'has no such setting'}")
    found = rows_of(batches(trl, rows, settings, pad, sampling="sequential"))
    for place, row in enumerate(wanted):
        if isinstance(row, int):
            assert len(found[place][0]) == row
        else:
            ids, labels = row[0], row[-1]
            assert found[place][0] == ids
            assert found[place][1][1:] == labels[1:]  # nothing predicts the first
    assert len(found) == len(wanted)


@pytest.mark.parametrize("packing", [False, True])
def test_a_collator_of_its_own_masks_the_tokens_that_its_tokenizer_pads_with(packing: bool) -> None:
    """TRL before 0.16.1 handed it rows of tokens: labels are these, packed or not, without that padding."""
    rows, settings, pad = styles.STYLES["text"]
    own, trainers = styles.make_tokenizer(pad), styles.make_tokenizer(pad)
    trainers.pad_token = trainers.eos_token
    word = rows[0]["text"].split()[0]
    own.pad_token = own.tokenize(word)[0]
    given = {**settings, "packing": packing, "label_mask": IgnorePadding(own, mlm=False), "max_length": styles.LENGTH}
    made = SFTBatches(rows, trainers, MESH, trl="0.8.6", epochs=1, batch_size=1, **given)  # type: ignore[arg-type]
    held = [(token, label) for ids, labels in rows_of(made) for token, label in zip(ids[1:], labels[1:], strict=True)]
    assert any(token == own.pad_token_id for token, _ in held)
    assert all((label == -100) == (token == own.pad_token_id) for token, label in held)


@pytest.mark.parametrize(
    ("trl", "padding_free", "apart"), [("0.29.0", False, False), ("0.29.1", True, True), ("1.0.0", False, True)]
)
def test_requeued_documents_saw_each_other_in_029(trl: str, padding_free: bool, apart: bool) -> None:
    """Its collator ran `bfd` together alone: rows of `bfd-requeue` were padded, their documents not told apart."""
    rows = [{"input_ids": [10, 11, 12, 13, 14, 15]}, {"input_ids": [20, 21]}]
    given = {"packing": True, "packing_strategy": "bfd-requeue", "max_length": 4, "padding_free": padding_free}
    made = batches(trl, rows, given, styles.PAD, sampling="sequential")
    last = list(made)[-1]
    assert last["input_tokens"][0, :4].tolist() == [14, 15, 20, 21]
    assert last["segment_ids"][0, :4].tolist() == ([1, 1, 2, 2] if apart else [1, 1, 1, 1])
    assert last["positions"][0, :4].tolist() == ([0, 1, 0, 1] if apart else [0, 1, 2, 3])
    assert last["labels"][0, 1:4].tolist() == [15, -100 if apart else 20, 21]


@pytest.mark.parametrize("trl", ["0.8.6", "0.16.1", "1.5.0"])
def test_a_collator_that_makes_no_labels_leaves_the_rows_own(trl: str) -> None:
    labels = [-100, 7, 8]
    rows = [{"input_ids": [6, 7, 8], "attention_mask": [1, 1, 1], "labels": labels}]
    made = batches(trl, rows, {"label_mask": OwnLabels()}, "pad")
    assert rows_of(made) == [[[6, 7, 8], labels]]
    del rows[0]["labels"]
    with pytest.raises(ValueError, match="the rows have none: the Trainer ends there"):
        batches(trl, rows, {"label_mask": OwnLabels()}, "pad")
    with pytest.raises(ValueError, match=r"the rows have none|needs dataset_text_field"):
        batches(trl, [{"text": "one two"}], {"label_mask": OwnLabels()}, "pad")


def _tokenised(text: str, **more: list[int]) -> dict[str, Any]:
    ids = styles.make_tokenizer("pad")(text)["input_ids"]
    return {"text": text, "input_ids": ids, "attention_mask": [1] * len(ids), **more}


@pytest.mark.parametrize(("trl", "own"), [("0.8.2", True), ("0.12.2", True), ("0.13.0", False)])
def test_packing_leaves_rows_of_tokens_with_their_labels_before_0_13(trl: str, own: bool) -> None:
    """Its collator was transformers' DataCollatorWithPadding then, which leaves labels alone."""
    rows = [_tokenised(text) for text in ("one two three", "four five six")]
    rows = [row | {"labels": [-100, -100, *row["input_ids"][2:]]} for row in rows]
    settings = {"packing": True, "max_length": 8}
    found = rows_of(made := batches(trl, rows, settings, "pad", sampling="sequential"))
    labels = [labels for _, labels in found]
    assert (labels == [row["labels"] for row in rows]) == own
    assert (len(found) == 2) == (len(list(made.evaluation(rows, batch_size=1))) == 2) == own
    if own:
        with pytest.raises(ValueError, match="no 'labels' to train"):
            batches(trl, [_tokenised("one")], settings, "pad")


@pytest.mark.parametrize(
    ("trl", "attention", "joined"),
    [
        ("0.19.0", None, True),
        ("0.23.0", "sdpa", True),
        ("0.21.0", "flash_attention_2", False),
        ("0.23.0", "kernels-community/vllm-flash-attn3", False),
        ("0.23.1", None, False),
    ],
)
def test_packed_documents_saw_each_other_without_flash_attention(trl: str, attention: str | None, joined: bool) -> None:
    """Its collator gave position ids to flash attention alone."""
    rows = [{"text": "one two"}, {"text": "three"}]
    settings = {"packing": True, "max_length": 16, "attention": attention}
    made = batches(trl, rows, settings, "pad", sampling="sequential")
    stream = IterableDataset.from_generator(lambda: iter(rows))
    streamed = batches(trl, stream, settings, "pad", sampling="sequential", epochs=None, max_steps=1)
    for batch in (*made, *streamed, *made.evaluation(rows, batch_size=1)):
        inside = np.count_nonzero(batch["segment_ids"])
        assert batch["segment_ids"].max() == (1 if joined else 2)
        assert (batch["positions"][0][:inside] == np.arange(inside)).all() == joined
        ids, labels = (batch[name][0][1:inside].tolist() for name in ("input_tokens", "labels"))
        assert (ids == labels) == (trl != "0.23.1")
    [apart] = batches(trl, rows, settings, "pad", sampling="sequential", unsloth="2025.9.1")
    assert apart["segment_ids"].max() == 2


@pytest.mark.parametrize("trl", ["0.15.2", "0.16.0", "0.16.1"])
@pytest.mark.parametrize("field", ["text", "prompt"])
@pytest.mark.parametrize("packing", [False, True])
def test_a_text_beside_a_prompt_without_a_completion_was_all_that_was_read_before_0_17(
    trl: str, field: str, packing: bool
) -> None:
    """Rows of preferences that the script gave a text of its own."""
    turns = [{"role": "user", "content": "who"}]
    settings = {"max_length": 16, "packing": packing}
    texts = ["one two three", "four five six"]
    rows = [{"text": "", "prompt": "who", "chosen": turns, "rejected": turns, "messages": turns} for _ in texts]
    rows = [row | {field: text} for row, text in zip(rows, texts, strict=True)]
    found = rows_of(batches(trl, rows, {**settings, "text_field": field}, "pad", sampling="sequential"))
    plain = rows_of(batches(trl, [{"text": text} for text in texts], settings, "pad", sampling="sequential"))
    assert found == plain


@pytest.mark.parametrize("packing", [False, True])
def test_rows_of_tokens_are_made_anew_from_their_texts_before_0_8_2(packing: bool) -> None:
    rows = [_tokenised("one two three") | {"input_ids": [9, 9], "attention_mask": [1, 0]}]
    settings = {"packing": packing, "max_length": 8, "text_field": "text"}
    [(ids, _)] = rows_of(batches("0.8.1", rows, settings, "pad"))
    assert ids == _tokenised("one two three")["input_ids"][:8]


def test_packing_leaves_rows_alone_that_nothing_prepares() -> None:
    rows = [_tokenised("one two three"), _tokenised("four five six")]
    rows = [row | {"labels": row["input_ids"]} for row in rows]
    found = rows_of(batches("0.14.0", rows, {"packing": True, "max_length": 64, "skip_prepare": True}, "pad"))
    assert sorted(ids for ids, _ in found) == sorted(row["input_ids"] for row in rows)


@pytest.mark.parametrize("trl", RELEASES)
@pytest.mark.parametrize("number", range(len(styles.RUNS)))
def test_steps_sum_what_the_release_summed(trl: str, number: int) -> None:
    count, batch_size, accumulation, epochs = styles.RUNS[number]
    run = RELEASES[trl]["runs"][number]
    if version_key(RELEASES[trl]["transformers"]) < (4, 38):
        pytest.skip("torch's global generator drew the order, which is not repeatable")
    made = batches(
        trl,
        styles.run_rows(count),
        {"text_field": "text", "max_length": styles.LENGTH},
        styles.PAD,
        epochs=epochs,
        batch_size=batch_size,
        accumulation=accumulation,
        transformers=RELEASES[trl]["transformers"],
    )
    order = [row.tolist() for rows, *_ in made._steps for row in np.asarray(rows)]
    read = [row for batch in run["batches"] for row in batch]
    assert order == read[: len(order)]
    assert made.steps == len(run["steps"])
    gradients = np.asarray(run["rows"])
    for (rows, share, *_), (_, gradient) in zip(made._steps, run["steps"], strict=True):
        assert np.allclose((gradients[rows] * share[:, None]).sum(axis=0), gradient, atol=2e-5)


@pytest.mark.parametrize(
    ("trl", "side", "settings", "said"),
    [
        ("0.12.2", "left", {}, True),
        ("0.12.2", "right", {}, False),
        ("0.17.0", "left", {}, False),
        ("0.12.2", "left", {"batch_size": 1}, False),
        ("0.12.2", "left", {"label_mask": CompletionOnly("b", tokenizer=byte_tokenizer())}, False),
    ],
)
def test_padding_in_front_of_rows_is_told(trl: str, side: str, settings: dict[str, Any], said: bool) -> None:
    """It predicts each shorter row's first token; the port's rows have none."""
    tokenizer = byte_tokenizer()
    tokenizer.padding_side = side
    data = [{"text": "a b c"}, {"text": "a b"}]
    made = SFTBatches(data, tokenizer, MESH, **{"batch_size": 2, "epochs": 1, "trl": trl, **settings})
    assert ("isn't trained here" in repr(made)) == said


def test_mistral_is_told_apart_when_a_script_runs() -> None:
    from types import SimpleNamespace

    from porter.runtime.facts.releases.mistral_means import mean_over, undivided

    def loaded(family: str) -> SimpleNamespace:
        return SimpleNamespace(porter=SimpleNamespace(family=SimpleNamespace(name=family, table={}), config={}))

    assert [mean_over(loaded(family), "4.46.3") for family in ("mistral", "qwen2")] == ["micro_batch", "step"]
    assert [mean_over(loaded("mistral"), release) for release in ("4.45.2", "4.48.3")] == ["step", "step"]
    assert [undivided(loaded(family), 8, "4.46.3") for family in ("mistral", "qwen2")] == [8.0, 1.0]
    assert undivided(loaded("mistral"), 8, "4.48.3") == 1.0


def test_mistral_reads_the_micro_batches_of_its_release() -> None:
    """Under 4.46 an epoch's last group has rows % accumulation of them: 1 of 5, so that 8 epochs make a step."""
    settings = {"text_field": "text", "max_length": styles.LENGTH, "mean_over": "micro_batch"}
    made = batches("0.12.2", styles.run_rows(9), settings, styles.PAD, epochs=1, batch_size=2, accumulation=8)
    [(rows, share, *_)] = made._steps
    assert len(rows) == 16
    trained = made._rows.trained[rows].reshape(8, 2).sum(axis=1)
    assert np.allclose(share.reshape(8, 2) * trained[:, None], 1 / 8)


def test_models_with_a_vision_tower_average_micro_batches() -> None:
    from porter.runtime.facts.families import find_family
    from porter.runtime.facts.releases.mistral_means import mean_over, undivided

    def model(architecture: str) -> SimpleNamespace:
        family = find_family(architecture)
        return SimpleNamespace(porter=SimpleNamespace(family=family, config={"architectures": [architecture]}))

    seeing, reading = model("Gemma3ForConditionalGeneration"), model("Gemma3ForCausalLM")
    assert [mean_over(seeing, release) for release in ("4.51.3", "5.12.1")] == ["micro_batch"] * 2
    assert mean_over(reading, "5.12.1") == "step"
    assert (undivided(seeing, 4, "4.51.3"), undivided(seeing, 4, "4.53.0"), undivided(reading, 4, "4.51.3")) == (
        4,
        1,
        1,
    )


@pytest.mark.parametrize(("trl", "kept"), [("0.16.0", "</s>"), ("0.19.1", None), ("1.1.0", "</s>")])
def test_batches_are_padded_whether_the_tokenizer_gets_a_padding_token_or_not(trl: str, kept: str | None) -> None:
    tokenizer = byte_tokenizer(None, pad_token=None)
    rows = [{"text": "ab"}, {"text": "abcd"}]
    batch = next(iter(SFTBatches(rows, tokenizer, MESH, trl=trl, epochs=1, batch_size=2)))  # type: ignore[arg-type]
    assert tokenizer.pad_token == kept
    assert (batch["input_tokens"][batch["segment_ids"] == 0] == tokenizer.eos_token_id).all()

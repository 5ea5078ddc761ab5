"""Pairs and completions of older releases against what those releases fed their models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.runtime import preference_rows, releases
from porter.runtime.preference_batches import PreferenceBatches

from ..fixtures import preference_styles, styles
from .byte_tokens import byte_tokenizer, trained_text

USER, OTHER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}
FOUND = json.loads((Path(__file__).parents[1] / "fixtures" / "preference_releases.json").read_text())


@pytest.mark.parametrize(
    ("trl", "style"), [(trl, style) for trl, found in FOUND.items() for style in found if not style.startswith("comp")]
)
def test_pairs_are_the_releases_own(trl: str, style: str) -> None:
    _, rows, settings = preference_styles.STYLES[style]
    settings = {"truncation_mode": "keep_end", **settings}
    found = preference_rows.pairs(rows, styles.make_tokenizer(), release=releases.release(trl), **settings)
    assert sorted(ids.tolist() for row in found.ids for ids in row) == FOUND[trl][style]


@pytest.mark.parametrize(("trl", "end"), [("0.12.2", "</s>"), ("0.27.1", "</s>"), ("0.27.2", ""), ("0.28.0", "")])
def test_a_conversations_answer_ends_as_its_template_has_it_from_0_27_2_on(trl: str, end: str) -> None:
    tokenizer = byte_tokenizer("{% for m in messages %}{{ m['content'] }}|{% endfor %}")
    rows = [{"chosen": [USER, {"role": "assistant", "content": answer}], "rejected": [USER, OTHER]} for answer in "ab"]
    found = preference_rows.pairs(
        rows, tokenizer, max_length=None, truncation_mode="keep_end", release=releases.release(trl)
    )
    assert tokenizer.decode(found.ids[0][0]) == f"q|a|{end}"


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

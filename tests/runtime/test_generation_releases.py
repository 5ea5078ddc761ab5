"""What a release of transformers generates with: measured with a tiny Llama in each of them (4.31 to 5.12)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.facts.generation_settings import Settings, settle
from porter.runtime.generation.text_generation import TextGenerationPipeline

SAMPLES = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.31.0"}
SAMPLES_50 = {**SAMPLES, "transformers_version": "4.50.0"}


def model(folder: Path, settings: dict[str, Any]) -> Any:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 1, **settings}))
    own = SimpleNamespace(path=folder, config={"max_position_embeddings": 512}, generation_json="{}")
    return SimpleNamespace(porter=own)


def shown(settings: Settings) -> tuple[float, float] | None:
    """Temperature and top_p of what is sampled, None of greedy decoding."""
    return (settings.temperature, settings.top_p) if settings.do_sample else None


class Told(TextGenerationPipeline):
    """A pipeline that gives what it would sample with."""

    def _records(self, model: Any, prompts: Any, asked: Settings, own: Any, tokenizing: Any, streamer: Any) -> Any:
        yield asked, tokenizing


def pipe(folder: Path, settings: dict[str, Any], release: str | None, made: dict[str, Any], **called: Any) -> Any:
    tokenizer = SimpleNamespace(
        padding_side="left", eos_token_id=1, pad_token_id=None, encode=lambda text, add_special_tokens: [7, 8]
    )
    return Told(model(folder, settings), tokenizer, transformers=release, **made)("a", **called)


@pytest.mark.parametrize(
    ("release", "settings", "sampled", "tokens"),
    [
        ("4.38.2", {}, None, 15),
        ("4.46.3", {}, None, 15),
        ("4.49.0", {}, None, 20),
        ("4.46.3", SAMPLES, (0.6, 0.9), 15),
        ("4.49.0", SAMPLES_50, (0.6, 0.9), 20),
        ("4.46.3", {**SAMPLES, "max_length": 40}, (0.6, 0.9), 35),
        ("4.52.4", SAMPLES, (0.7, 0.9), 256),
        (None, SAMPLES, (0.7, 0.9), 256),
        (None, {}, (0.7, 1.0), 256),
    ],
)
def test_pipelines_of_a_release(
    release: str | None, settings: dict[str, Any], sampled: Any, tokens: int, tmp_path: Path
) -> None:
    asked, _ = pipe(tmp_path, settings, release, {})

    assert (shown(asked), asked.new_tokens(5)[0]) == (sampled, tokens)


@pytest.mark.parametrize("release", ["4.38.2", "4.46.3", "4.49.0"])
@pytest.mark.parametrize(
    ("made", "called", "tokens"),
    [
        ({"max_length": 30}, {}, 25),
        ({}, {"max_length": 30}, 25),
        ({"max_new_tokens": 7}, {}, 7),
        ({"max_new_tokens": 7}, {"max_length": 30}, 7),
        ({"max_length": 30}, {"max_new_tokens": 7}, 7),
    ],
)
def test_lengths_of_a_pipeline(
    release: str, made: dict[str, Any], called: dict[str, Any], tokens: int, tmp_path: Path
) -> None:
    asked, _ = pipe(tmp_path, {}, release, made, **called)

    assert asked.new_tokens(5)[0] == tokens


@pytest.mark.parametrize("release", ["4.38.2", "4.46.3", "4.49.0"])
def test_a_temperature_of_0_is_no_error_where_nothing_is_sampled(release: str, tmp_path: Path) -> None:
    assert shown(pipe(tmp_path, {}, release, {}, temperature=0.0)[0]) is None
    assert shown(pipe(tmp_path, {}, release, {"temperature": 0.2})[0]) is None


BARE = {"add_special_tokens": False}


@pytest.mark.parametrize(
    ("release", "made", "called", "told"),
    [
        ("4.31.0", {}, {}, BARE),
        ("4.42.4", {}, {}, BARE),
        ("4.43.0", {}, {}, {}),
        (None, {}, {}, {}),
        ("4.36.2", {}, {"max_length": 40}, BARE),
        ("4.37.2", {}, {"max_length": 40}, {**BARE, "max_length": 40}),
        (None, {}, {"max_length": 40}, {"max_length": 40}),
        ("4.40.0", {"max_length": 40, "add_special_tokens": True, "truncation": True}, {}, BARE),
        ("4.40.0", {}, {"add_special_tokens": True}, {"add_special_tokens": True}),
        ("4.42.0", {"max_length": 40, "truncation": True}, {}, {**BARE, "max_length": 40, "truncation": True}),
        ("4.42.0", {"add_special_tokens": True}, {}, {"add_special_tokens": True}),
    ],
)
def test_what_a_prompt_is_tokenised_with(
    release: str | None, made: dict[str, Any], called: dict[str, Any], told: dict[str, Any], tmp_path: Path
) -> None:
    assert pipe(tmp_path, {}, release, made, **called)[1] == told


@pytest.mark.parametrize(("release", "ends"), [("4.47.0", (7,)), ("4.48.2", (7, 8)), (None, (7, 8))])
def test_where_a_stop_sequence_ends_a_completion(release: str | None, ends: tuple[int, ...], tmp_path: Path) -> None:
    asked, _ = pipe(tmp_path, {}, release, {"stop_sequence": "a b"})

    assert asked.ends == ends


@pytest.mark.parametrize(("release", "refuses"), [("4.37.2", False), ("4.38.2", True), ("4.46.3", True)])
def test_a_prompt_as_long_as_all_that_is_asked_for(release: str, refuses: bool, tmp_path: Path) -> None:
    asked, _ = pipe(tmp_path, {}, release, {}, max_length=40)

    if refuses:
        with pytest.raises(ValueError, match="leaves none to generate"):
            asked.new_tokens(45)
    else:
        assert asked.new_tokens(45)[0] == 1


@pytest.mark.parametrize(
    ("release", "settings", "config", "sampled"),
    [
        ("4.38.2", SAMPLES, {"max_new_tokens": 7}, None),
        ("4.49.0", SAMPLES_50, {"max_new_tokens": 7}, None),
        ("4.46.3", SAMPLES_50, {"max_new_tokens": 7, "do_sample": True}, (1.0, 1.0)),
        ("4.51.3", SAMPLES, {"max_new_tokens": 7}, None),
        ("4.51.3", SAMPLES_50, {"max_new_tokens": 7}, (0.6, 0.9)),
        ("4.51.3", SAMPLES, {"max_new_tokens": 7, "do_sample": True}, (1.0, 1.0)),
        ("4.51.3", SAMPLES_50, {"max_new_tokens": 7, "do_sample": True, "temperature": 1.0}, (0.6, 0.9)),
        (None, SAMPLES, {"max_new_tokens": 7}, (0.6, 0.9)),
    ],
)
def test_what_a_generation_config_leaves_open(
    release: str | None, settings: dict[str, Any], config: dict[str, Any], sampled: Any, tmp_path: Path
) -> None:
    asked = settle(model(tmp_path, settings), None, config, {}, {}, release)

    assert (shown(asked), asked.ends, asked.new_tokens(5)[0]) == (sampled, (1,), 7)

"""Files that a run leaves beside its weights, as transformers' own functions write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.real

TRAIN = {"train_runtime": 3725.239, "train_loss": 1.23456, "epoch": 3.0, "train_samples": 12, "note": "x"}
EVAL = {"eval_loss": 0.5, "eval_runtime": 0.129, "epoch": 3.0}


def test_metrics_are_written_and_printed_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import trainer_pt_utils

    from porter import runtime as rt

    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    trainer = SimpleNamespace(is_world_process_zero=lambda: True, args=SimpleNamespace(output_dir=str(theirs)))
    for split, metrics in (("train", TRAIN), ("eval", EVAL)):
        trainer_pt_utils.save_metrics(trainer, split, metrics)
        rt.save_metrics(str(ours), split, metrics)
        trainer_pt_utils.log_metrics(trainer, split, metrics)
        expected = capsys.readouterr().out
        rt.log_metrics(split, metrics)
        assert capsys.readouterr().out == expected
    trainer_pt_utils.save_metrics(trainer, "test", EVAL, combined=False)
    rt.save_metrics(ours, "test", EVAL, combined=False)
    names = sorted(file.name for file in theirs.iterdir())
    assert names == sorted(file.name for file in ours.iterdir()) and "all_results.json" in names
    assert all((ours / name).read_text() == (theirs / name).read_text() for name in names)


def test_generation_settings_are_saved_as_transformers_saves_them(
    tmp_path: Path, tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any]
) -> None:
    import jax.numpy as jnp
    from transformers import AutoModelForCausalLM, GenerationConfig

    from porter import runtime as rt

    folder = tiny("qwen3")
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    model = rt.load_model(str(folder), tiny_mesh(1, 1), dtype=jnp.float32)
    assert rt.generation_config(model).eos_token_id == theirs.generation_config.eos_token_id
    for each in (theirs.generation_config, rt.generation_config(model)):
        each.eos_token_id, each.max_new_tokens = [5, 7], 9
    theirs.config.pad_token_id = rt.model_config(model).pad_token_id = 3
    theirs.config.attention_dropout = rt.model_config(model).attention_dropout = 0.25
    read = ("hidden_size", "vocab_size", "model_type", "max_position_embeddings", "tie_word_embeddings", "pad_token_id")
    assert [getattr(rt.model_config(model), name) for name in read] == [getattr(theirs.config, name) for name in read]
    assert rt.model_config(model).name_or_path == str(folder) == theirs.config.name_or_path
    assert not hasattr(rt.model_config(model), "no_such_value") and "Qwen3Config" in repr(rt.model_config(model))
    with pytest.raises(ValueError, match="hidden_size can't be set"):
        rt.model_config(model).hidden_size = 7
    theirs.save_pretrained(tmp_path / "theirs")
    rt.save_model(model, tmp_path / "ours")
    read = [GenerationConfig.from_pretrained(tmp_path / name).to_diff_dict() for name in ("theirs", "ours")]
    assert read[0] == read[1] and read[0]["eos_token_id"] == [5, 7] and read[0]["max_new_tokens"] == 9
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("theirs", "ours")]
    names = ("pad_token_id", "eos_token_id", "bos_token_id", "attention_dropout")
    assert [configs[0].get(name) for name in names] == [configs[1].get(name) for name in names]
    assert configs[1]["pad_token_id"] == 3

"""Every field table is well-formed, gives its reasons, and answers by version."""

import ast
from pathlib import Path

import pytest

from porter.runtime.facts.field_tables import REQUIRED, find_table, load_table, rules_root

TABLES = sorted(rules_root().glob("*/tables/*.toml"))
FATES = {"exact", "changed", "dropped", "manual"}
ROOMS = {
    "optimizer", "schedule", "run", "batch", "data", "loss", "precision", "memory", "log", "eval", "save",
    "model", "lora", "mesh", "rollout", "reward", "distillation",
}  # fmt: skip


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_rows_are_well_formed(path: Path) -> None:
    table = load_table(path)
    for row in table.own.values():
        where = f"{path.name}: {row.name}"
        assert row.fate in FATES, where
        assert row.fate == "exact" or row.reason, f"{where} says no reason"
        assert row.fate in ("dropped", "manual") or row.target, f"{where} doesn't say where it went"
        assert not row.place or (row.place.split(".")[0] in ROOMS and row.place.count(".") == 1), where
        texts = [text for text in row.defaults.values() if text != REQUIRED]
        for verdict in row.values:
            assert verdict.fate in FATES and verdict.literals, where
            assert verdict.fate == "exact" or verdict.reason, f"{where} says no reason"
            texts += verdict.literals
        for text in [*texts, *row.harmless, *([row.bare] if row.bare else [])]:
            ast.literal_eval(text)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_newest_default_needs_nobody(path: Path) -> None:
    for row in load_table(path).rows().values():
        if row.default not in (None, REQUIRED):
            assert row.verdict(ast.literal_eval(row.default))[0] != "manual", f"{path.name}: {row.name}"


def test_defaults_follow_the_version() -> None:
    table = find_table("trl.SFTConfig")
    assert table.rows()["learning_rate"].default == "2e-05"
    assert table.rows("0.11.4")["learning_rate"].default == "5e-05"
    assert table.rows("0.21")["gradient_checkpointing"].default == "False"
    assert table.rows()["gradient_checkpointing"].default == "True"
    assert "max_length" not in table.rows("0.12") and table.rows("0.12")["max_seq_length"].default == "None"
    assert table.rows("0.17")["max_length"].default == "1024"
    assert "chars_per_token" in table.rows("0.16") and "chars_per_token" not in table.rows()


def test_inherited_defaults_follow_the_base_of_the_day() -> None:
    table = find_table("trl.SFTConfig")
    assert table.rows()["optim"].default == "'adamw_torch_fused'"
    assert table.rows("0.12")["optim"].default == "'adamw_torch'"
    assert table.rows({"trl": "0.12", "transformers": "4.57.3"})["optim"].default == "'adamw_torch_fused'"
    assert "evaluation_strategy" in find_table("transformers.TrainingArguments").rows("4.39")


def test_older_names_find_their_row() -> None:
    table = find_table("trl.SFTConfig")
    for name, place in [("max_seq_length", "data.max_length"), ("evaluation_strategy", "eval.strategy")]:
        row = table.row(name)
        assert row is not None and row.place == place
    assert table.row("no_such_field") is None


def test_what_a_library_did_before_it_had_a_field() -> None:
    table = find_table("trl.SFTConfig")
    assert table.defaults("0.16")["data.completion_only_loss"].default == "False"
    assert table.defaults()["data.completion_only_loss"].default == "None"
    assert table.defaults("0.12")["data.packing_strategy"].default == "'constant_length'"


def test_single_values_have_their_own_fate() -> None:
    optim = find_table("transformers.TrainingArguments").row("optim")
    assert optim is not None
    assert optim.verdict("adamw_torch") == ("exact", "")
    assert optim.verdict("lomo")[0] == "manual"
    delay = find_table("transformers.TrainingArguments").row("eval_delay")
    assert delay is not None
    assert delay.verdict(0)[0] == "dropped" and delay.verdict(0.1)[0] == "manual"
    assert delay.verdict(False)[0] == "manual"  # False is no number here


def test_a_missing_table_is_named() -> None:
    with pytest.raises(LookupError, match=r"acme\.NoSuchConfig"):
        find_table("acme.NoSuchConfig")


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "acme" / "tables" / "acme_config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("fields = 3")
    with pytest.raises(ValueError, match=r"acme_config\.toml: not a field table"):
        load_table(path)

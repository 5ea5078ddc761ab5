"""The field tables against what the releases' wheels have: which release takes a keyword, and with which default."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator

import pytest

from porter.releases.history import history
from porter.runtime.facts.field_tables import REQUIRED, FieldTable, find_table, version_key

FIRST = {"RLOOConfig": "0.22.0", "ScriptArguments": "0.12.0"}  # other classes of that name came before
# What a class holds for "not given"; the table has what its trainer makes of that.
NOT_GIVEN = frozenset(
    """
    max_length max_prompt_length max_completion_length label_pad_token_id generate_during_eval reference_free
    force_use_ref_model base_model_attribute_name use_logits_to_keep use_num_logits_to_keep use_liger_loss padding_value
    lr_scheduler_kwargs
    """.split()
)
# KTO took its rows in sequence before its class said so, and had no loss_type in 0.10 alone.
APART = frozenset({("KTOConfig", "train_sampling_strategy"), ("KTOConfig", "loss_type")})
CLASSES = (
    "transformers.TrainingArguments",
    "trl.SFTConfig",
    "trl.DPOConfig",
    "trl.experimental.orpo.ORPOConfig",
    "trl.experimental.cpo.CPOConfig",
    "trl.KTOConfig",
    "trl.experimental.gkd.GKDConfig",
    "trl.GRPOConfig",
    "trl.RLOOConfig",
    "trl.ModelConfig",
    "trl.ScriptArguments",
    "trl.DatasetMixtureConfig",
)


def releases_of(table: FieldTable) -> Iterator[tuple[str, dict[str, str]]]:
    """Each release that has a table's class, and the transformers that the tables take with it."""
    known, name = history(), table.name.rpartition(".")[2]
    for release in known.releases(table.library):
        old = version_key(release) < version_key(FIRST.get(name, "0"))
        if old or not any(known.has(table.library, release, path) for path in table.names):
            continue
        base = table
        while base.base is not None and base.base.library == table.library:
            base = base.base
        versions = base._base_versions({table.library: release}) if base.base is not None else {}
        minor = dict(versions or {}).get("transformers")
        fitting = [each for each in known.releases("transformers") if minor and f"{each}.".startswith(f"{minor}.")]
        yield release, {"transformers": fitting[-1]} if fitting and table.library == "trl" else {}


@pytest.mark.parametrize("path", CLASSES)
def test_a_table_has_what_each_release_takes(path: str) -> None:
    table, known = find_table(path), history()
    name = path.rpartition(".")[2]
    wrong: dict[str, list[str]] = {}
    for release, beside in releases_of(table):
        names = {*table.rows(release), *table.former(release)}
        for row in table._all():
            for keyword in (row.name, *row.renamed_from):
                takes = known.takes(table.library, release, name, keyword, **beside)
                if takes != (keyword in names) and (name, keyword) not in APART and release != "4.46.1":
                    wrong.setdefault(f"{keyword}: {'taken' if takes else 'not taken'}", []).append(release)
    assert {text: (found[0], found[-1]) for text, found in wrong.items()} == {}


@pytest.mark.parametrize("path", CLASSES)
def test_a_table_has_each_release_s_defaults(path: str) -> None:
    table, known = find_table(path), history()
    name = path.rpartition(".")[2]
    wrong: dict[str, list[str]] = {}
    for release, beside in releases_of(table):
        for row in table.rows(release).values():
            if not known.takes(table.library, release, name, row.name, **beside):
                continue
            default = known.default(table.library, release, name, row.name, **beside)
            if default == "?" or row.default in (None, REQUIRED) or default is None:
                continue
            if (name, row.name) in APART or (row.name in NOT_GIVEN and default in ("None", "-1", "0")):
                continue
            if literal_eval(default) not in (literal_eval(row.default), [literal_eval(row.default)]):
                wrong.setdefault(f"{row.name}: {default}, not {row.default}", []).append(release)
    assert {text: (found[0], found[-1]) for text, found in wrong.items()} == {}

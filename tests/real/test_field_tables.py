"""The field tables against the installed classes: no field without a row, no default that is another."""

import ast
import dataclasses
import enum
import importlib
import inspect
from typing import Any

import pytest

from porter.runtime.facts.field_tables import REQUIRED, FieldTable, find_table

pytestmark = pytest.mark.real

CLASSES = [
    "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments",
    "trl.SFTConfig", "trl.ModelConfig", "trl.ScriptArguments",
    "trl.DatasetMixtureConfig", "trl.scripts.utils.DatasetConfig", "peft.LoraConfig", "trl.DPOConfig", "trl.KTOConfig",
    "trl.experimental.orpo.ORPOConfig", "trl.experimental.cpo.CPOConfig", "trl.GRPOConfig", "trl.RLOOConfig",
    "trl.experimental.gkd.GKDConfig",
]  # fmt: skip
TRAINERS = [
    "trl.SFTTrainer", "trl.DPOTrainer", "trl.KTOTrainer", "trl.experimental.orpo.ORPOTrainer",
    "trl.experimental.cpo.CPOTrainer", "trl.GRPOTrainer", "trl.RLOOTrainer", "trl.experimental.gkd.GKDTrainer",
    "transformers.Trainer", "transformers.Seq2SeqTrainer",
]  # fmt: skip


def _installed(name: str) -> Any:
    module, attribute = name.rsplit(".", 1)
    return getattr(importlib.import_module(module), attribute)


def _missing(table: FieldTable, names: list[str]) -> list[str]:
    rows = table.rows()
    return [name for name in names if name not in rows]


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_has_its_row_and_default(name: str) -> None:
    table = find_table(name)
    fields = dataclasses.fields(_installed(name))
    assert _missing(table, [field.name for field in fields]) == []
    rows = table.rows()
    assert list(rows) == [field.name for field in fields]  # positional arguments too
    for field in fields:
        assert rows[field.name].help, field.name  # --help of a ported script
        text = rows[field.name].default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = field.default
        if default is dataclasses.MISSING:
            assert text == REQUIRED, field.name
        elif not dataclasses.is_dataclass(default):
            value = default.value if isinstance(default, enum.Enum) else default
            assert text is not None and ast.literal_eval(text) == value, field.name


@pytest.mark.parametrize("name", [*CLASSES, *TRAINERS])
def test_import_paths_lead_to_the_class(name: str) -> None:
    known = {_installed(name)}
    for path in find_table(name).also:
        try:
            known.add(_installed(path))
        except (ImportError, AttributeError):
            continue  # a path of an older release
    assert len(known) == 1


@pytest.mark.parametrize("name", TRAINERS)
def test_every_keyword_of_the_trainer_has_its_row(name: str) -> None:
    rows = find_table(name).rows()
    keywords = [keyword for keyword in inspect.signature(_installed(name).__init__).parameters if keyword != "self"]
    assert list(rows) and set(rows) == set(keywords)


LOOP = [
    "torch.optim.AdamW", "torch.optim.Adam", "torch.utils.data.DataLoader", "transformers.get_scheduler",
    "transformers.get_linear_schedule_with_warmup", "transformers.get_cosine_schedule_with_warmup",
    "transformers.get_constant_schedule", "transformers.get_constant_schedule_with_warmup",
]  # fmt: skip


@pytest.mark.parametrize("name", ["transformers.BitsAndBytesConfig", "peft.prepare_model_for_kbit_training", *LOOP])
def test_every_keyword_of_a_call_has_its_row_and_default(name: str) -> None:
    rows = find_table(name).rows()
    keywords = inspect.signature(_installed(name)).parameters
    assert list(rows) == [key for key in keywords if key != "kwargs"]
    for key, row in rows.items():
        if keywords[key].default is not inspect.Parameter.empty:
            assert row.default is not None and ast.literal_eval(row.default) == keywords[key].default, key


def test_a_missing_row_is_noticed() -> None:
    assert _missing(find_table("trl.SFTConfig"), ["learning_rate", "brand_new_field"]) == ["brand_new_field"]


@pytest.mark.parametrize("name", ["ForLanguageModeling", "ForSeq2Seq", "WithPadding"])
def test_every_keyword_of_a_collator_has_its_row(name: str) -> None:
    name = f"transformers.DataCollator{name}"
    rows = find_table(name).rows()
    for field in dataclasses.fields(_installed(name)):
        text = rows[field.name].default
        assert text is not None, field.name
        # mlm is True when it is left out, which the table can't give as harmless: it is refused.
        assert text == REQUIRED or ast.literal_eval(text) == field.default, field.name

"""Data that a pydantic model of the project refused is made up anew by the model's schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, Optional

import pydantic
import pytest

from porter.validate.stand_ins.data.missing_files import made_document
from porter.validate.stand_ins.data.plan import DOCUMENT
from porter.validate.stand_ins.data.repair import write_repair
from porter.validate.stand_ins.data.rows import made_up_value
from porter.validate.stand_ins.pydantic_models import asked_by_model


class Turn(pydantic.BaseModel):
    role: Literal["system", "user", "assistant"]
    content: Optional[str] = None  # noqa: UP045 - as strangers write it
    calls: Optional[list[dict[str, Any]]] = None  # noqa: UP045


class Trace(pydantic.BaseModel):
    question: str
    turns: list[Turn] = pydantic.Field(default_factory=list)
    report: str | None = None
    calls: list[int] | None = None
    steps: int = pydantic.Field(default=0, ge=1, le=9)
    kind: Literal["a", "b"] = "a"


def refused(model: Any, given: str) -> BaseException:
    with pytest.raises(pydantic.ValidationError) as caught:
        model.model_validate_json(given)
    return caught.value


def test_a_file_that_is_one_object_is_a_document_of_its_fields() -> None:
    found = asked_by_model(refused(Trace, "[1]"))
    assert found is not None and found["column"] == DOCUMENT
    fields = found["kind"]["fields"]
    assert fields["turns"] == "messages" and fields["kind"] == {"one of": ["a", "b"]} and "calls" not in fields
    entry = {"columns": {}, "count": 4, "seed": 0, "limit": None}
    made = [made_document(found["kind"], entry, number) for number in (1, 2)]
    assert [Trace.model_validate_json(json.dumps(each)).report for each in made] == [each["report"] for each in made]
    assert made[0]["question"] != made[1]["question"]


def test_rows_get_all_columns_of_the_model_at_once() -> None:
    found = asked_by_model(refused(Trace, '{"text": "x"}'))
    assert found is not None
    columns = {found["column"]: found["kind"], **found["more"]}
    assert set(columns) == {"question", "turns", "report", "steps", "kind"}
    Trace(**{name: made_up_value(name, kind, 3) for name, kind in columns.items()})


def test_other_errors_and_settings_ask_for_nothing(tmp_path: Path) -> None:
    class BaseSettings(pydantic.BaseModel):
        length: int

    assert asked_by_model(ValueError("no")) is None
    assert asked_by_model(refused(type("Own", (BaseSettings,), {}), "{}")) is None


def test_the_repair_is_written_where_data_was_made_up(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps({"traces/made_up.json": {"columns": {"messages": "messages"}}}))
    (tmp_path / "source").mkdir()
    error = refused(Trace, "[1]")
    write_repair(error, tmp_path / "source", asked_by_model(error))
    assert json.loads((tmp_path / "source/repair.json").read_text())["column"] == DOCUMENT

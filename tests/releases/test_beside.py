"""What is installed beside a library's releases, as their wheels' metadata says."""

from __future__ import annotations

import datetime
import tomllib
import zipfile
from pathlib import Path

import pytest

from porter.releases.beside import bounds_in, main, newest_of_day, rows
from porter.releases.history import history
from porter.releases.versions import pins_of
from porter.runtime.facts.field_tables import rules_root, version_key

HEAD = "Metadata-Version: 2.4\nName: unsloth\nVersion: 1\n"
MAY = datetime.date(2025, 5, 28)


def asks(*lines: str) -> str:
    return HEAD + "".join(f"Requires-Dist: {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("lines", "bounds"),
    [
        (["transformers!=4.47.0,==4.51.3", 'transformers<5; extra == "huggingface"'], "!=4.47.0,==4.51.3"),
        (["transformers >=4.43.2 ; extra == 'huggingface'", "transformers-stream-generator==0.0.5"], ">=4.43.2"),
        (['transformers<5; python_version >= "3.9"'], "<5"),
        (["trl<0.9.0"], ""),
    ],
)
def test_the_bounds_of_a_plain_installation_count(lines: list[str], bounds: str) -> None:
    assert bounds_in(asks(*lines)) == pins_of(bounds)


@pytest.mark.parametrize(
    ("bounds", "newest"),
    [
        (">=4.51.3", "4.52.3"),
        ("!=4.52.3,>=4.51.3", "4.52.2"),
        ("<=4.51.2", "4.51.2"),
        ("==4.51.3", "4.51.3"),
        (">=5", None),
    ],
)
def test_the_newest_of_its_day_is_installed(bounds: str, newest: str | None) -> None:
    assert newest_of_day(pins_of(bounds), MAY) == newest


def test_a_row_stands_where_the_answer_changes() -> None:
    any_of_them, pinned = asks("transformers>=4.46.1"), asks("transformers==4.51.3")
    releases = [
        ("2025.3.post1", datetime.date(2025, 3, 1), asks("transformers<4.40")),
        ("2025.3.post2", datetime.date(2025, 3, 1), any_of_them),
        ("2025.3.1", datetime.date(2025, 3, 10), any_of_them),
        ("2025.5.6", datetime.date(2025, 5, 17), pinned),
        ("2025.5.7", MAY, pinned),
        ("2025.5.8", MAY, any_of_them),
        ("2025.5.9", MAY, asks("torch")),
    ]
    found = rows(releases)
    assert {one: installed for one, (installed, _) in found.items()} == {
        "2025.3": "4.49.0",
        "2025.5.6": "4.51.3",
        "2025.5.8": "4.52.3",
    }
    assert found["2025.5.6"][1] == datetime.date(2025, 5, 17)


def test_rows_are_made_of_wheels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["beside", "--library", "unsloth", "--wheels", str(tmp_path)]
    monkeypatch.setattr("sys.argv", command)
    assert main() == 2 and "no wheel of unsloth" in capsys.readouterr().err
    for version, line in (("2025.5.10", "transformers<4.52"), ("2025.5.9", "transformers")):
        with zipfile.ZipFile(tmp_path / f"unsloth-{version}-py3-none-any.whl", "w") as wheel:
            info = zipfile.ZipInfo(f"unsloth-{version}.dist-info/METADATA", (2025, 5, 28, 0, 0, 0))
            wheel.writestr(info, asks(line))
    assert main() == 0
    assert (
        capsys.readouterr().out.partition("\n\n")[0]
        == '[beside.transformers]\n"2025.5.9" = "4.52.3"\n"2025.5.10" = "4.51.3"'
    )


def test_the_rows_that_are_checked_in_are_in_order_and_known() -> None:
    table = tomllib.loads((rules_root() / "unsloth" / "tables" / "fast_model.toml").read_text("utf-8"))
    found = table["beside"]["transformers"]
    assert [*found] == [*table["came_out"]] and [*table["came_out"].values()] == sorted(table["came_out"].values())
    assert [*found] == sorted(found, key=version_key) and {*found.values()} <= {*history().releases("transformers")}
    assert all(one != other for one, other in zip([*found.values()][1:], found.values(), strict=False))

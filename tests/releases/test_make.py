"""The checked-in data is what the releases' own wheels give."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from porter.releases.make import history, main, read_all, span
from porter.releases.record import HERE, Record
from porter.releases.wheels import read_wheel

RELEASES = ("trl==0.7.11", "trl==0.12.2", "trl==0.19.1", "transformers==4.40.2", "peft==0.10.0", "accelerate==1.0.0")


def only(record: Record, place: int) -> dict[str, Any]:
    """The data of one release, as if it had been made of that alone."""

    def kept(node: Any) -> Any:
        if isinstance(node, dict) and node and all(key[:1].isdigit() for key in node):
            words: list[str] = []
            pairs: dict[str, Any] = {}
            listed = False
            for text, facts in node.items():
                if record.mask(text) >> place & 1:
                    listed = listed or isinstance(facts, list)
                    if isinstance(facts, dict):
                        pairs.update(facts)
                    else:
                        words += facts if isinstance(facts, list) else facts.split(" ")
            found = pairs or words
            if not found:
                return {}
            return {
                "0-": dict(sorted(pairs.items())) if pairs else sorted(words) if listed else " ".join(sorted(words))
            }
        if isinstance(node, dict):
            parts = {key: kept(value) for key, value in node.items()}
            return {key: value for key, value in parts.items() if value not in ({}, None)}
        return node

    return {key: kept(record.data[key]) for key in ("requires", "names", "calls", "classes")}


@pytest.mark.long
@pytest.mark.parametrize("pin", RELEASES)
def test_a_release_read_again_is_what_is_checked_in(pin: str, tmp_path: Path) -> None:
    library, _, version = pin.partition("==")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        str(tmp_path),
        pin,
    ]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    (wheel,) = tmp_path.glob("*.whl")
    release = read_wheel(wheel, {})
    record = Record(library)
    place = record.releases.index(version)
    assert record.dates[place].isoformat() == release.date
    again = Record(library)
    again.data, again.releases, again.spans = json.loads(json.dumps(history([release]))), (version,), {}
    assert only(again, 0) == only(record, place)


def small(folder: Path, version: str, init: str, config: str) -> None:
    """A wheel of a library of that name with one class."""
    with zipfile.ZipFile(folder / f"trl-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("trl/__init__.py", init)
        wheel.writestr("trl/mine_config.py", config)
        said = "Metadata-Version: 2.1\nName: trl\nVersion: 1\nRequires-Dist: transformers (>=4.31)\n"
        wheel.writestr(f"trl-{version}.dist-info/METADATA", said)


def test_two_releases_become_spans(tmp_path: Path) -> None:
    field = "from dataclasses import dataclass\n@dataclass\nclass MineConfig:\n    a: int = {}\n"
    small(tmp_path, "0.9.0", "from .mine_config import MineConfig\n", field.format(1))
    small(tmp_path, "0.10.0", "from .mine_config import MineConfig, new\n", field.format(2) + "    b: str = 'x'\n")
    made = history(read_all("trl", tmp_path))
    assert made["releases"] == ["0.9.0", "0.10.0"]
    assert made["calls"]["MineConfig"]["takes"] == {"0-1": {"a": "1"}, "1-": {"a": "2", "b": "'x'"}}
    assert made["names"][""] == {"0-": "MineConfig", "1-": "new"}
    assert made["requires"] == {"0-": ["transformers >=4.31"]}


def test_spans() -> None:
    assert span([0, 1, 5], 6) == "0-2,5-"
    assert span([2], 4) == "2-3"


def test_a_folder_without_wheels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["make", "--library", "peft", "--wheels", str(tmp_path), "--out", str(tmp_path)])
    assert main() == 2
    assert "no wheel of peft" in capsys.readouterr().err
    assert Path(HERE).is_dir()

"""`tpu-port environments list|remove`."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.cli import run
from porter.validate.environments.store import finish


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TPU_PORT_CACHE", str(tmp_path))
    for name in ("trl-0.8.6-aaaa", "trl-0.9.6-bbbb"):
        folder = tmp_path / "environments" / name
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").write_bytes(b"0" * 1000)
    finish(tmp_path / "environments" / "trl-0.8.6-aaaa", {"about": "trl 0.8.6"})
    return tmp_path / "environments"


def test_list(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["environments", "list"]) == 0
    said = capsys.readouterr().out
    assert "trl-0.8.6-aaaa" in said and "trl 0.8.6" in said and "half made" in said


def test_remove(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["environments", "remove", "0.8.6"]) == 0
    assert [path.name for path in two.iterdir() if path.is_dir()] == ["trl-0.9.6-bbbb"]
    assert run(["environments", "remove", "--all"]) == 0
    assert not [path for path in two.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "name an environment, or --all"), (["x"], "no environment of the name"), (["trl"], "2 environments")],
)
def test_a_wrong_name_removes_nothing(
    two: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["environments", "remove", *words]) == 2
    assert said in capsys.readouterr().err
    assert len([path for path in two.iterdir() if path.is_dir()]) == 2

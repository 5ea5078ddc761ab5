"""What was parsed of TOML is kept by its text, in a file of the user's own, and changes nothing of what is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from porter.runtime.facts.field_tables import rules_root

SOURCE = Path(__file__).resolve().parents[2] / "porter" / "runtime" / "facts" / "toml_memory.py"


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """The module as a new process has it, with a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def load() -> ModuleType:
        module = ModuleType("toml_memory")
        exec(compile(SOURCE.read_bytes(), str(SOURCE), "exec"), module.__dict__)
        return module

    return load


def test_what_is_remembered_is_what_tomllib_reads(fresh) -> None:  # type: ignore[no-untyped-def]
    files = [path for path in rules_root().rglob("*.toml") if "cases" not in path.parts]
    first, second = fresh(), fresh()
    for path in files:
        first.read_toml(path)
    first.remember()
    second.tomllib = None  # it needs none
    for path in files:
        wanted = tomllib.loads(path.read_text("utf-8"))
        assert json.dumps(second.read_toml(path)) == json.dumps(wanted), path


def test_a_changed_text_is_read_anew(fresh, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    first, second = fresh(), fresh()
    assert first.parse_toml(b"a = 1") == {"a": 1}
    first.remember()
    assert second.parse_toml(b"a = 2") == {"a": 2} and second.parse_toml(b"a = 1") == {"a": 1}
    second.remember()
    assert len(json.loads(second.memory().read_text())) == 2
    with pytest.raises(tomllib.TOMLDecodeError):
        second.parse_toml(b"a = ")


def test_dates_are_not_kept(fresh) -> None:  # type: ignore[no-untyped-def]
    first, second = fresh(), fresh()
    found = first.parse_toml(b"a = 2026-01-01")
    first.remember()
    assert second.parse_toml(b"a = 2026-01-01") == found == tomllib.loads("a = 2026-01-01")


@pytest.mark.parametrize("how", ["others", "link", "broken", "list", "pipe"])
def test_a_memory_that_is_not_the_users_is_none(fresh, tmp_path: Path, how: str) -> None:  # type: ignore[no-untyped-def]
    first, second = fresh(), fresh()
    first.parse_toml(b"a = 1")
    first.remember()
    file = second.memory()
    lies = file.read_text().replace('"a": 1', '"a": 3')
    file.write_text(lies)
    if how == "others":
        file.chmod(0o666)
    elif how == "link":
        file.rename(tmp_path / "other")
        file.symlink_to(tmp_path / "other")
    elif how == "pipe":
        file.unlink()
        os.mkfifo(file)
    else:
        file.write_text("{" if how == "broken" else "[]")
    assert second.parse_toml(b"a = 1") == {"a": 1}


def test_a_folder_that_cannot_be_written_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    script = tmp_path / "x.py"
    script.write_text("import torch\n")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "porter.cli", str(script)]
    root = SOURCE.parents[3]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_command_remembers(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "porter.cli", "rules", "show", "TP112"]
    done = subprocess.run(words, env=environment, capture_output=True, cwd=SOURCE.parents[3], check=False)
    file = tmp_path / "tpu-port" / "toml.json"
    assert done.returncode == 0 and file.stat().st_mode & 0o777 == 0o600 and json.loads(file.read_text())

"""The copy in which a script runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from porter.validate.running import copying
from porter.validate.running.copying import copy_project


def make_project(root: Path) -> Path:
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("x")
    (root / "data.json").write_text("[]")
    script = root / "src" / "train.py"
    script.write_text("print()")
    return script


def test_a_project_is_copied_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = make_project(tmp_path / "p")
    monkeypatch.chdir(tmp_path / "p")
    place, said = copy_project(script, tmp_path / "work")
    assert said == ""
    assert place.folder == tmp_path / "work" / "copy"
    assert place.script.read_text() == "print()" and (place.folder / "data.json").exists()
    assert not list((place.folder / ".git").iterdir())  # a mark of the project, and no history
    assert place.told(f"in {place.script}") == f"in {script}"


def test_a_script_of_an_installed_package_is_copied_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = make_project(tmp_path / "p" / ".venv" / "site-packages" / "trl")
    monkeypatch.chdir(tmp_path / "p")
    place, said = copy_project(script, tmp_path / "work")
    assert said == "" and place.copy is not None
    assert tmp_path / "work" in place.script.parents and place.script.read_text() == "print()"


def test_from_elsewhere_it_runs_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = make_project(tmp_path / "p")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    place, _ = copy_project(script, tmp_path / "work")
    assert place.root == tmp_path / "p" and place.folder == place.script.parent


def test_a_large_project_gives_way_to_a_smaller_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = make_project(tmp_path / "p")
    (tmp_path / "p" / "much.bin").write_bytes(b"0" * 3000)
    monkeypatch.chdir(tmp_path / "p")
    place, said = copy_project(script, tmp_path / "one", limit=2000)
    assert place.root == script.parent and said == ""
    place, said = copy_project(script, tmp_path / "two", limit=1)
    assert place.copy is None and place.script == script and "--copy-limit" in said


def test_large_files_are_links_and_links_stay_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = make_project(tmp_path / "p")
    monkeypatch.setattr(copying, "LINKED", 100)
    (tmp_path / "p" / "weights.bin").write_bytes(b"0" * 1000)
    (tmp_path / "p" / "inside").symlink_to(tmp_path / "p" / "data.json")
    (tmp_path / "out.txt").write_text("out")
    (tmp_path / "p" / "outside").symlink_to(Path("..") / "out.txt")
    (tmp_path / "p" / "gone").symlink_to("nowhere")
    os.mkfifo(tmp_path / "p" / "pipe")
    monkeypatch.chdir(tmp_path / "p")
    place, _ = copy_project(script, tmp_path / "work")
    assert place.copy is not None
    assert (place.copy / "weights.bin").is_symlink()
    assert (place.copy / "inside").resolve() == (place.copy / "data.json").resolve()
    assert (place.copy / "outside").read_text() == "out"
    assert not (place.copy / "pipe").exists()


# A port outside its source's project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "scripts").mkdir(parents=True)
    (folder / "data").mkdir()
    for name, text in (("README.md", ""), ("scripts/train.py", "import rows"), ("scripts/rows.py", "torch")):
        (folder / name).write_text(text)
    (folder / "data" / "rows.json").write_text("[]")
    return folder


def test_a_port_elsewhere_finds_the_sources_data_and_its_own_modules(project: Path, tmp_path: Path) -> None:
    port = tmp_path / "out" / "train_tunix.py"
    port.parent.mkdir()
    port.write_text("import rows\nimport jax_rows")
    (port.parent / "rows.py").write_text("jax")
    (port.parent / "jax_rows.py").write_text("jax")
    (port.parent / "unrelated.py").write_text("")
    (tmp_path / "work").mkdir()
    place, said = copy_project(port, tmp_path / "work", source=project / "scripts" / "train.py")

    assert not said
    assert place.script == tmp_path / "work" / "copy" / "scripts" / "train_tunix.py"
    assert (place.folder / "../data/rows.json").is_file()
    assert (place.script.with_name("rows.py").read_text(), place.script.with_name("jax_rows.py").exists()) == (
        "jax",
        True,
    )
    assert not place.script.with_name("unrelated.py").exists()
    assert (project / "scripts" / "rows.py").read_text() == "torch"
    assert place.told(f'File "{place.script}", line 1') == f'File "{port}", line 1'
    assert place.told(str(place.copy / "data")) == str(project / "data")


def test_a_port_in_the_sources_project_runs_where_it_lies(project: Path, tmp_path: Path) -> None:
    port = project / "ports" / "train.py"
    port.parent.mkdir()
    port.write_text("")
    (tmp_path / "work").mkdir()
    place, _ = copy_project(port, tmp_path / "work", source=project / "scripts" / "train.py")

    assert place.copy is not None
    assert (place.script, place.folder) == (place.copy / "ports" / "train.py", place.copy / "scripts")

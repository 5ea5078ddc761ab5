"""Writing: whole or not at all, and never over something else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from porter.errors import InputError
from porter.front.output import check_output, recipe_path, vendor_runtime, write_port
from porter.port import Port

from .report import example


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(example.BEFORE.encode())
    return path


def unchanged(source: Path, data: bytes) -> Port:
    source.write_bytes(data)
    text = data.decode("latin-1")
    return example.port(source, before=text, after=text, status="unchanged", edits=())


def refusal(source: Path, output: Path, **settings: bool) -> str:
    with pytest.raises(InputError) as raised:
        check_output(source, output, **{"force": False, **settings})
    return str(raised.value)


def test_an_output_that_exists_is_refused(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.py"
    out.write_text("mine")
    assert "the output exists; --force replaces it" in refusal(source, out)
    with pytest.raises(InputError):
        write_port(example.port(source), out)
    assert out.read_text() == "mine"
    write_port(example.port(source), out, force=True)
    assert out.read_text() == example.port().after


def test_a_dangling_link_exists_too(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.py").symlink_to(tmp_path / "nowhere.py")
    assert "exists" in refusal(source, tmp_path / "out.py")


def test_the_source_is_never_the_output(source: Path, tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to(source)
    os.link(source, tmp_path / "hard.py")
    for name in ("train.py", "link.py", "hard.py", "../" + tmp_path.name + "/train.py"):
        assert "the output is the source itself" in refusal(source, tmp_path / name, force=True)


def test_a_folder_and_a_missing_folder_say_what_to_do(source: Path, tmp_path: Path) -> None:
    assert f"-o {tmp_path / 'train.py'}" in refusal(source, tmp_path)
    assert "mkdir -p" in refusal(source, tmp_path / "no" / "out.py")


def test_a_file_of_the_recipes_name_that_isnt_one_is_refused(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.py"
    recipe_path(out).write_text("{}")
    assert "out.recipe.json" in refusal(source, out)
    write_port(example.port(source), out, force=True)
    out.unlink()
    check_output(source, out, force=False)


def test_nothing_half_written_when_the_rename_fails(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.py"
    out.write_text("the old port")

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="No space left on device"):
        write_port(example.port(source), out, force=True)
    assert out.read_text() == "the old port"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.py", "train.py"]


def test_a_kill_while_writing_leaves_the_old_port(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.py"
    out.write_text("the old port")
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom porter.front.output import write_port\n"
        "from tests.report import example\n"
        "os.replace = lambda *args: os._exit(9)\n"
        "write_port(example.port(sys.argv[1]), Path(sys.argv[2]), force=True)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(source), str(out)], cwd=Path(__file__).parent.parent)
    assert done.returncode == 9
    assert out.read_text() == "the old port"


@pytest.mark.parametrize(
    "data", [b"a\r\nb\r\n", b"\xef\xbb\xbfx = 1\n", b"\tif\x0c\n\x0c", b"# coding: latin-1\nx = '\xe9'", b""]
)
def test_a_file_with_nothing_to_port_is_copied_byte_for_byte(source: Path, tmp_path: Path, data: bytes) -> None:
    port = unchanged(source, data)
    assert write_port(port, tmp_path / "out.py") == (tmp_path / "out.py",)
    assert (tmp_path / "out.py").read_bytes() == data
    assert not (tmp_path / "out.recipe.json").exists()


def test_newlines_mark_and_encoding_of_the_source_stay(source: Path, tmp_path: Path) -> None:
    port = example.port(source, before="a\r\n", after="é\r\n", bom=True)
    write_port(port, tmp_path / "out.py")
    assert (tmp_path / "out.py").read_bytes() == b"\xef\xbb\xbf\xc3\xa9\r\n"


def test_a_port_that_its_encoding_cant_hold_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="encoding can't hold"):
        write_port(example.port(source, after="→\n", encoding="latin-1"), tmp_path / "out.py")
    assert not (tmp_path / "out.py").exists()


def test_an_executable_script_stays_executable(source: Path, tmp_path: Path) -> None:
    source.chmod(0o755)
    write_port(example.port(source), tmp_path / "out.py")
    assert os.access(tmp_path / "out.py", os.X_OK)
    assert not os.access(tmp_path / "out.recipe.json", os.X_OK)


def test_a_link_stays_a_link(source: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.py"
    real.write_text("old")
    (tmp_path / "out.py").symlink_to(real)
    write_port(example.port(source), tmp_path / "out.py", force=True)
    assert (tmp_path / "out.py").is_symlink() and real.read_text() == example.port().after


def test_files_beside_the_port_are_written_and_others_kept(source: Path, tmp_path: Path) -> None:
    port = example.port(source, files=(("acme.toml", "name = 'acme'\n"),))
    assert tmp_path / "acme.toml" in write_port(port, tmp_path / "out.py")
    assert (tmp_path / "acme.toml").read_text() == "name = 'acme'\n"
    (tmp_path / "acme.toml").write_text("mine")
    (tmp_path / "out.py").unlink()
    with pytest.raises(InputError, match=r"acme\.toml"):
        write_port(port, tmp_path / "out.py")
    assert not (tmp_path / "out.py").exists()


def test_the_runtime_is_copied_with_its_tables_and_refreshed(source: Path, tmp_path: Path) -> None:
    runtime = vendor_runtime(tmp_path)
    assert (runtime / "families" / "gemma3.toml").is_file()
    assert (runtime / "rules" / "trl" / "tables" / "sft_config.toml").is_file()
    assert not list(runtime.rglob("__pycache__"))
    (runtime / "stale.py").write_text("")
    vendor_runtime(tmp_path)
    assert not (runtime / "stale.py").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_a_folder_that_isnt_ours_is_never_replaced(source: Path, tmp_path: Path) -> None:
    (tmp_path / "porter_runtime").mkdir()
    (tmp_path / "porter_runtime" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="porter_runtime"):
        write_port(example.port(source), tmp_path / "out.py", vendor=True)
    assert (tmp_path / "porter_runtime" / "thesis.tex").exists()

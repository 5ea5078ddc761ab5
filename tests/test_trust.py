"""A stranger's folder is data: its packs don't run until they are trusted, and nothing is imported from it."""

from __future__ import annotations

import marshal
import os
import struct
import subprocess
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

from porter.cli import run
from porter.errors import InputError
from porter.front.project import read_project
from porter.front.trust import allowed_packs, digest, is_trusted, memory, trust

SCRIPT = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out")
trainer = SFTTrainer("google/gemma-3-4b-it", args=args, train_dataset=load_dataset("x", split="train"))
trainer.train()
"""
RULE = '''"""@trainer.never() → gone.

What it does: leaves a file where it ran.
"""

from pathlib import Path

Path(__file__).with_name("ran").touch()
ID = "OURS1"
MATCHES = ("@trainer.never()",)


def apply(site, porting): ...
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose pyproject.toml names a pack with a Python rule; trust is remembered elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "theirs"
    (project / "pack").mkdir(parents=True)
    (project / "train.py").write_text(SCRIPT)
    (project / "pyproject.toml").write_text('[tool.tpu-port]\nrules = ["pack"]\n')
    (project / "pack" / "pack.toml").write_text('name = "ours"\nversion = "1"\n[[rule]]\nfile = "rule.py"\n')
    (project / "pack" / "rule.py").write_text(RULE)
    monkeypatch.chdir(project)
    return project


@pytest.mark.parametrize("row", ['[[rule]]\nfile = "rule.py"\n', 'rules = ["*.py"]\n'])
def test_a_pack_of_the_folder_does_not_run_until_it_is_trusted(
    folder: Path, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    (folder / "pack" / "pack.toml").write_text(f'name = "ours"\nversion = "1"\n{row}')
    ran = folder / "pack" / "ran"
    for words in (["train.py"], ["."], ["rules", "list"], ["rules", "show", "OURS1"]):
        assert run(words) == 2
        error = capsys.readouterr().err
        assert "names packs whose Python nobody trusted: pack; read it" in error and "rules trust" in error
    run(["doctor", "--json"])
    assert not ran.exists()
    capsys.readouterr()
    assert run(["rules", "trust", "."]) == 0
    assert "Trusted" in capsys.readouterr().out and not ran.exists()
    assert memory().stat().st_mode & 0o077 == 0
    assert run(["train.py"]) == 0 and ran.exists()


def test_a_pack_that_changed_is_no_longer_trusted(folder: Path) -> None:
    pack = folder / "pack"
    trust([pack])
    assert is_trusted(pack)
    before = digest(pack)
    (pack / "data.txt").write_text("read by the rule")
    assert digest(pack) != before and not is_trusted(pack)
    with pytest.raises(InputError, match="nobody trusted"):
        allowed_packs(read_project(folder))


def test_what_is_compiled_is_neither_hashed_nor_run(folder: Path) -> None:
    """Another program, compiled as Python would have compiled the rule: it is as old and says that it is as long."""
    pack = folder / "pack"
    before = digest(pack)
    (rule,) = pack.glob("*.py")
    (pack / "__pycache__").mkdir()
    head = MAGIC_NUMBER + struct.pack("<LLL", 0, int(rule.stat().st_mtime), rule.stat().st_size)
    compiled = Path(cache_from_source(str(rule)))
    compiled.write_bytes(head + marshal.dumps(compile("raise SystemExit(9)", str(rule), "exec")))
    assert digest(pack) == before
    trust([pack])
    assert run(["train.py"]) == 0
    assert [path.name for path in (pack / "__pycache__").iterdir()] == [compiled.name]


def test_on_a_terminal_the_user_is_asked_once(folder: Path) -> None:
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(InputError, match="nobody trusted"):
        allowed_packs(read_project(folder), ask=no)
    assert allowed_packs(read_project(folder), ask=lambda question: True) == (folder / "pack",)
    assert allowed_packs(read_project(folder), ask=no) == (folder / "pack",)
    assert len(asked) == 1 and "pack" in asked[0]


def test_the_command_line_and_packs_of_data_need_no_trust(folder: Path) -> None:
    assert run(["train.py", "--rules", "pack"]) == 0
    (folder / "pack" / "pack.toml").write_text('name = "ours"\nversion = "1"\n')
    assert run(["train.py"]) == 0


@pytest.mark.parametrize("row", ['[[rule]]\nfile = "../rule.py"\n', '[[rule]]\nfile = "linked/rule.py"\n'])
def test_a_pack_is_a_folder_and_no_file_of_it_lies_elsewhere(
    folder: Path, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    outside = folder / "elsewhere"
    outside.mkdir()
    for place in (folder, outside):
        (place / "rule.py").write_text(RULE)
    (folder / "pack" / "linked").symlink_to(outside)
    (folder / "pack" / "pack.toml").write_text(f'name = "ours"\nversion = "1"\n{row}')
    trust([folder / "pack"])
    capsys.readouterr()
    assert run(["train.py"]) == 2
    assert "names a file that is not in the pack" in capsys.readouterr().err
    assert not list(folder.rglob("ran"))


def test_settings_are_looked_for_up_to_the_repository_and_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text('[tool.tpu-port]\nmesh = "fsdp=8"\n')
    inner = folder / "repository"
    inner.mkdir()
    (inner / "train.py").write_text(SCRIPT)
    assert read_project(inner / "train.py").mesh == "fsdp=8"
    (inner / ".git").mkdir()
    assert read_project(inner / "train.py").mesh is None
    run(["train.py"])
    assert f"settings from {folder / 'pyproject.toml'}: mesh" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_settings_of_another_user_are_none(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.tpu-port]\nmesh = "fsdp=8"\n')
    os.chown(folder / "pyproject.toml", 12345, 12345)
    assert read_project(folder / "train.py").mesh is None
    os.chown(folder / "train.py", 12345, 12345)
    assert read_project(folder / "train.py").mesh == "fsdp=8"


@pytest.mark.parametrize("path", [None, "{here}:"])
def test_nothing_is_imported_from_the_current_folder(folder: Path, path: str | None) -> None:
    """Neither by the tool nor by what it starts: each of these modules would leave a file and end the process."""
    for name in ("click", "jax", "yaml", "libcst", "pathspec", "tomllib", "struct", "concurrent"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\nraise SystemExit(9)\n")
    info = folder / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tpu_port.packs]\nevil = pack\n")
    (folder / "pyproject.toml").unlink()
    for number in range(4):  # enough scripts for worker processes
        (folder / f"train_{number}.py").write_text(SCRIPT)
    house = Path(__file__).parents[1]
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = f"{house}:{path.format(here=folder)}"
    start = f"import sys\nsys.path.insert(0, {str(house)!r})\nfrom porter.cli import main\nmain()"
    for words in (["doctor", "--timeout", "100"], ["."]):
        done = subprocess.run([sys.executable, "-c", start, *words], capture_output=True, text=True, env=environment)
        assert done.returncode in (0, 1), done.stderr
        assert not (folder / "ran").exists(), words

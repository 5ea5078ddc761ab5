"""The files of a folder: what git ignores, links, what an import means, circles, and how much is read together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from porter.source.folder import MOST_FILES, imported_names, read_tree
from porter.source.merged import Merged


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(folder: Path) -> set[str]:
    return {path.as_posix() for path in read_tree(folder).files}


def test_what_git_ignores_is_no_part_of_it(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            ".gitignore": "*.log\n/data/\n__tmp*\n!keep.log\n",
            "a.py": "",
            "a.log": "",
            "keep.log": "",
            "data/x.py": "",
            "src/data/x.py": "",
            "src/.gitignore": "local.py\n!b.log\n",
            "src/local.py": "",
            "src/b.log": "",
            "__tmp1/x.py": "",
            ".git/config": "",
            "src/__pycache__/x.pyc": "",
            "venv/pyvenv.cfg": "",
            "venv/lib/x.py": "",
        },
    )
    assert names(tmp_path) == {".gitignore", "a.py", "keep.log", "src/data/x.py", "src/.gitignore", "src/b.log"}


def test_links_are_kept_and_not_walked(tmp_path: Path) -> None:
    tree(tmp_path, {"real/a.py": "x = 1\n"})
    os.symlink("real", tmp_path / "other")
    os.symlink("nowhere", tmp_path / "broken")
    os.symlink("loop", tmp_path / "loop")
    os.symlink("..", tmp_path / "real" / "up")
    found = read_tree(tmp_path)
    assert [str(path) for path in found.files] == ["real/a.py"]
    assert {str(path) for path in found.links} == {"other", "broken", "real/up"}
    assert "is a symbolic link that leads back to itself" in str(found.troubles[Path("loop")])
    assert "kept as a link, not followed" in str(found.troubles[Path("real/up")])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("from config import LR, A as B\nimport os.path", ["config.LR", "config.A", "os.path"]),
        ("from . import a\nfrom ..b.c import d\nfrom .e import *", [".a", "..b.c.d", ".e"]),
        ("def f():\n    from late import x", ["late.x"]),
        ("print 'no'", []),
        ("x = (", []),
    ],
)
def test_what_a_file_imports(tmp_path: Path, text: str, want: list[str]) -> None:
    (tmp_path / "a.py").write_text(text)
    assert imported_names(tmp_path / "a.py") == want


@pytest.mark.parametrize(
    ("user", "name", "want"),
    [
        ("scripts/train.py", "config.LR", ("scripts/config.py", "LR")),
        ("scripts/train.py", "pack.models.load", ("pack/models.py", "load")),
        ("scripts/train.py", "pack.models", ("pack/models.py", "")),
        ("scripts/train.py", "deep.thing.x", ("src/deep/thing.py", "x")),
        ("pack/models.py", ".other.f", ("pack/other.py", "f")),
        ("pack/models.py", ".other", ("pack/other.py", "")),
        ("pack/sub/a.py", "..other.f", ("pack/other.py", "f")),
        ("pack/sub/a.py", "..name", ("pack/__init__.py", "name")),
        ("scripts/train.py", "pack.name", ("pack/__init__.py", "name")),
        ("scripts/train.py", "numpy.array", None),
        ("scripts/train.py", "pack.models.Class.member", None),
    ],
)
def test_which_file_an_import_means(tmp_path: Path, user: str, name: str, want: tuple[str, str] | None) -> None:
    files = "scripts/train.py scripts/config.py pack/__init__.py pack/models.py pack/other.py pack/sub/a.py"
    tree(tmp_path, dict.fromkeys([*files.split(), "src/deep/thing.py"], ""))
    found = read_tree(tmp_path).find(name, Path(user))
    assert found == (None if want is None else (Path(want[0]), want[1]))


def test_circles_are_found_once(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "import b", "b.py": "import c", "c.py": "import a", "d.py": "import a", "e.py": "import d"})
    found = read_tree(tmp_path).circles([Path("d.py"), Path("e.py"), Path("b.py")])
    assert [{str(path) for path in circle} for circle in found] == [{"a.py", "b.py", "c.py"}]


def test_a_script_and_its_modules_are_one(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "a.py": "from b import X, f\nfrom c import Y\nprint(X, Y)",
            "b.py": "from c import Y as X\ndef f(): return é if X else a\n".replace("é", "'é'"),
            "c.py": "Y = 3\n",
        },
    )
    found = read_tree(tmp_path)
    module = found.merged(Path("a.py"))
    assert isinstance(module, Merged) and [Path(part.module.path).name for part in module.parts][-1] == "a.py"
    for node in module.parents:
        code = module.code(node)
        assert code == module.part_of(node).module.code(node)
    binding = module.single_binding(module.loads("X")[-1])
    assert binding is not None and binding.value is not None and module.code(binding.value) == "3"


def test_what_lies_too_far_is_left_out(tmp_path: Path) -> None:
    count = MOST_FILES + 20
    tree(tmp_path, {f"m{i}.py": f"import m{i + 1}\n" for i in range(count)})
    module = read_tree(tmp_path).merged(Path("m0.py"))
    assert isinstance(module, Merged) and len(module.parts) == MOST_FILES

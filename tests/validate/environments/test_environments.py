"""How an environment is made: once, whole, by one of two that ask, and what is said where it can't be."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from porter.errors import InputError
from porter.validate.environments import choose, make, store
from porter.validate.environments.choose import source_python
from porter.validate.environments.interpreter import ask
from porter.validate.environments.make import CannotMake, environment_for, name_of
from porter.validate.environments.sets import Wanted

GENERATIONS = Path(__file__).parents[3] / "bench" / "generations"


def small(monkeypatch: pytest.MonkeyPatch, installs: list[list[str]], output: str | None = None) -> Wanted:
    """An environment whose installer is only noted down; everything else is real."""

    def run(words: list[str], environment: dict[str, str]) -> str | None:
        installs.append(list(words))
        return output

    monkeypatch.setattr(make, "_run", run)
    return Wanted({"trl": "0.8.6", "transformers": "4.40.1"}, "2024-05-05")


def test_an_environment_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    installs: list[list[str]] = []
    wanted, said = small(monkeypatch, installs), []
    first = environment_for(wanted, said.append)
    again = environment_for(wanted, said.append)
    assert first.folder == again.folder and len(installs) == 2  # its releases, and what torch imports
    assert "trl==0.8.6" in installs[0] and "400 MB" in said[0]
    code = "import importlib.util as u, sys; print(u.find_spec('torch').origin, sys.prefix, u.find_spec('jax'))"
    done = subprocess.run([str(first.python), "-c", code], capture_output=True, text=True, check=True)
    torch, prefix, jax = done.stdout.split()
    assert Path(torch).resolve().is_file() and prefix == str(first.folder) and jax == "None"


def test_a_library_that_asks_for_too_much_is_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    installs: list[list[str]] = []

    def run(words: list[str], environment: dict[str, str]) -> str | None:
        installs.append(list(words))
        return None if "--no-deps" in words and "impossible" not in words else "error: a conflict because of b"

    monkeypatch.setattr(make, "_run", run)
    said: list[str] = []
    kept = make.overlay_for(["handbook", "impossible"], said.append)
    assert kept.about is not None and kept.about["missing"] == ["impossible"]
    assert [words[-1] for words in installs if "--no-deps" in words] == ["handbook", "impossible"]
    assert any("handbook without what it asks for: error: a conflict" in line for line in said)
    assert any("impossible can't be installed" in line for line in said)


def test_a_half_made_environment_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    installs: list[list[str]] = []
    wanted = small(monkeypatch, installs)
    made = environment_for(wanted)
    (made.folder / store.FINISHED).unlink()
    (made.folder / "rest").touch()
    assert store.look(made.folder).about is None
    environment_for(wanted)
    assert len(installs) == 4 and not (made.folder / "rest").exists()


def hold(folder: Path, name: str, version: str) -> None:
    [site] = folder.glob("lib/python*/site-packages")
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_an_environment_that_holds_another_release_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    installs: list[list[str]] = []
    wanted, said = small(monkeypatch, installs), []
    made = environment_for(wanted)
    hold(made.folder, "transformers", wanted.pins["transformers"])
    environment_for(wanted, said.append)
    assert len(installs) == 2 and not said
    hold(made.folder, "trl", "0.9.6")
    environment_for(wanted, said.append)
    assert len(installs) == 4 and said[0].endswith("holds trl 0.9.6 by now, and is made anew")

    def other(words: list[str], environment: dict[str, str]) -> None:
        [python] = [Path(word) for word in words if word.endswith("bin/python")]
        hold(python.parent.parent, "trl", f"0.9.{len(installs)}")
        installs.append(words)

    monkeypatch.setattr(make, "_run", other)
    (made.folder / store.FINISHED).unlink()
    with pytest.raises(CannotMake, match=r"the installer gave trl 0\.9\.\d for trl 0\.8\.6"):
        environment_for(wanted)


def test_an_installation_that_is_ended_leaves_nothing(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    wanted = small(monkeypatch, [])

    def ended(words: list[str], environment: dict[str, str]) -> str | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "_run", ended)
    with pytest.raises(KeyboardInterrupt):
        environment_for(wanted)
    assert store.kept() == []


def test_two_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    installs: list[list[str]] = []
    wanted = small(monkeypatch, installs)
    said: list[str] = []
    with store.locked(name_of(wanted)):
        other = threading.Thread(target=environment_for, args=(wanted, said.append))
        other.start()
        other.join(1)
        assert other.is_alive() and "waiting" in said[0]
    other.join(60)
    assert len(installs) == 2


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("error: Failed to fetch: `https://...`\n  dns error", "the package index can't be reached"),
        ("OSError: [Errno 28] No space left on device", "is full"),
        ("× No solution found\n╰─▶ Because there is no version of trl==9.9.9", "no releases go together"),
    ],
)
def test_what_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch, output: str, said: str) -> None:
    wanted = small(monkeypatch, [], output)
    with pytest.raises(CannotMake, match=said) as failed:
        environment_for(wanted)
    assert "\n" not in str(failed.value)
    assert store.kept() == []


def test_a_full_disk_is_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = small(monkeypatch, [])
    monkeypatch.setattr(make, "NEEDED", 1 << 60)
    with pytest.raises(CannotMake, match="are free on the disk"):
        environment_for(wanted)


def test_a_source_without_an_environment_is_tried_here(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, [], "dns error")
    said: list[str] = []
    python, notes = source_python(GENERATIONS / "trl_0_8_completions.py", None, say=said.append)
    assert python == Path(sys.executable)
    assert "can't be reached" in said[-1] and "but ran on trl" in notes[0]


# A Python of the user's own


def test_an_interpreter_without_torch_is_refused(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    with pytest.raises(InputError, match="has no torch and no transformers"):
        ask(tmp_path / "v" / "bin" / "python")


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such interpreter"):
        ask(tmp_path / "none")
    (tmp_path / "sh").write_text("#!/bin/sh\necho no\n")
    (tmp_path / "sh").chmod(0o755)
    with pytest.raises(InputError, match="is not a Python that runs"):
        ask(tmp_path / "sh")


def test_an_old_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "python").write_text('#!/bin/sh\necho \'{"python": [3, 8, 1], "releases": {}}\'\n')
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(InputError, match=r"is Python 3\.8\.1"):
        ask(tmp_path / "python")


def test_a_set_that_does_not_go_together_keeps_the_source_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only datasets stood against transformers 4.34.1: peft stays the one that the script imports from."""
    installs: list[list[str]] = []
    wanted = replace(small(monkeypatch, installs), pins={"trl": "0.7.11", "peft": "0.5.0", "datasets": "2.17.1"})
    original = make._run

    def refuses(words: Any, environment: Any) -> str | None:
        asked = " ".join(words)
        if "datasets==" in asked:
            return "No solution found\nBecause datasets==2.17.1"
        return original(words, environment)

    monkeypatch.setattr(make, "_run", refuses)
    said: list[str] = []
    environment_for(wanted, said.append)
    first = " ".join(installs[0])
    assert "trl==0.7.11" in first and "peft==0.5.0" in first and "datasets" in first and "datasets==" not in first
    assert any("not all of" in line for line in said)


def test_a_ports_libraries_are_of_the_releases_that_the_source_ran_with(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path, tmp_path: Path
) -> None:
    source = own_cache / "trl-0.12.1"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "python").symlink_to(sys.executable)
    store.finish(source, {"about": "trl 0.12.1", "releases": {"langchain": "0.3.27", "rouge_score": "0.1.2"}})
    asked: list[list[str]] = []
    missing: list[list[str]] = [["langchain==0.3.27"], [], []]

    def overlay(extras: list[str], say: Any) -> store.Kept:
        asked.append(extras)
        return store.Kept(source, {"missing": missing[len(asked) - 1]})

    monkeypatch.setattr(choose, "overlay_for", overlay)
    script = tmp_path / "port.py"
    script.write_text("import langchain, rouge_score, sacrebleu\n")

    choose.remember_python(str(tmp_path), source / "bin" / "python")
    choose.port_python(script, like=choose.remembered_python(str(tmp_path)))
    # Those that can't stand beside JAX are taken as they are today.
    assert asked == [
        ["langchain==0.3.27", "rouge-score==0.1.2", "sacrebleu"],
        ["langchain", "rouge-score", "sacrebleu"],
    ]
    choose.port_python(script)
    assert asked[2:] == [asked[1]]


def test_what_a_port_s_libraries_bring_along_is_of_the_source_s_releases_too(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path, tmp_path: Path
) -> None:
    source = own_cache / "trl-0.12.1"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "python").symlink_to(sys.executable)
    site = source / "lib" / "python3.11" / "site-packages"
    for name, version, asks in (
        ("langchain", "0.6.11", ["langchain-core<0.7,>=0.6", "numpy", 'redis; extra == "cache"']),
        ("langchain_core", "0.6.5", ["langchain.splitters"]),
        ("langchain-splitters", "3.0.1", ["langchain"]),
        ("numpy", "1.26.0", []),  # tpu-port has its own
        ("redis", "5.0.0", []),
        ("rouge-score", "0.1.2", []),
    ):
        (folder := site / f"{name}-{version}.dist-info").mkdir(parents=True)
        lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in asks)]
        (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))
    store.finish(source, {"about": "trl 0.12.1", "releases": {"langchain": "0.6.11"}})
    asked: list[list[str]] = []
    monkeypatch.setattr(choose, "overlay_for", lambda extras, say: asked.append(extras) or store.Kept(source, {}))
    script = tmp_path / "port.py"
    script.write_text("import langchain\n")
    choose.port_python(script, like=source / "bin" / "python")
    assert asked == [["langchain==0.6.11", "langchain-core==0.6.5", "langchain-splitters==3.0.1"]]

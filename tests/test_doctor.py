"""What doctor says of machines that lack something."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import porter.extras as extras
import porter.front.doctor as doctor
from porter.cli import run
from porter.front.doctor import Check, Diagnosis, diagnose, known_versions, package

RUN = ("running a port",)


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """jax's child process answers what the test says, or hangs."""
    answer: dict[str, Any] = {"out": '{"platform": "tpu", "kind": "TPU v5e", "count": 8}', "err": "", "rc": 0}

    def child(words: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        if answer["rc"] == "hangs":
            raise subprocess.TimeoutExpired(words, settings["timeout"])
        return subprocess.CompletedProcess(words, answer["rc"], answer["out"], answer["err"])

    monkeypatch.setattr(subprocess, "run", child)
    return answer


def found(diagnosis: Diagnosis, subject: str) -> Check:
    return next(check for check in diagnosis.checks if check.subject == subject)


def test_the_versions_known_to_work_are_those_of_the_constraints() -> None:
    known = known_versions()
    assert known["google-tunix"] == "0.1.7" and known["huggingface-hub"]
    assert "+" not in known["torch"]


def test_a_version_is_compared_with_the_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: {"torch": "2.13.0+cpu", "qwix": "0.2.0", "jax": "0.4.1"}[name])
    monkeypatch.setattr(extras, "requires", lambda name: ['jax>=0.10; extra == "tpu"'])
    known = {"torch": "2.13.0", "qwix": "0.1.8", "jax": "0.10.2"}
    assert package("torch", known, "validate", RUN).health == "ok"
    newer = package("qwix", known, "tpu", RUN)
    assert (newer.health, newer.found) == ("differs", "0.2.0") and "qwix==0.1.8" in newer.fix
    older = package("jax", known, "tpu", RUN)
    assert older.health == "fails" and "older than 0.10" in older.found


def test_what_is_missing_says_what_to_install_and_what_fails_without() -> None:
    check = package("no-such-distribution", {}, "tpu", RUN)
    assert check.health == "fails" and check.fix == "pip install 'tpu-port[tpu]'"
    diagnosis = Diagnosis((check,))
    assert diagnosis.commands["running a port"] == (check,)
    assert diagnosis.commands["tpu-port SOURCE"] == ()
    assert diagnosis.exit_code == 1


def test_export_needs_what_a_port_needs_and_libtpu_is_needed_by_nothing(
    devices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "version", _without("xxhash", "libtpu"))
    diagnosis = diagnose()
    assert [check.subject for check in diagnosis.commands["tpu-port export"]] == ["xxhash"]
    assert diagnosis.commands["tpu-port SOURCE"] == ()
    compiler = found(diagnosis, "libtpu")
    assert compiler.health == "differs" and "pip install 'tpu-port[tpu-compile]'" in compiler.fix


def _without(*names: str) -> Any:
    """importlib.metadata.version on a machine that lacks `names` and has the rest as the constraints say."""

    def version(name: str) -> str:
        if name in names:
            raise doctor.PackageNotFoundError(name)
        return known_versions().get(name.lower().replace("_", "-"), "1")

    return version


def test_a_differing_version_fails_nothing() -> None:
    assert Diagnosis((Check("qwix", "9", "differs", needed_by=RUN),)).exit_code == 0


def test_devices_are_named(devices: dict[str, Any]) -> None:
    assert found(diagnose(), "devices").found == "8 × TPU v5e (tpu)"


def test_a_tpu_held_by_another_process_is_no_hang(devices: dict[str, Any]) -> None:
    devices["rc"] = "hangs"
    check = found(diagnose(timeout=3), "devices")
    assert check.health == "fails" and "within 3 s" in check.found and "another process" in check.fix


def test_jax_that_fails_shows_its_last_line(devices: dict[str, Any]) -> None:
    devices.update(rc=1, err="Traceback\nRuntimeError: no backend\n")
    assert found(diagnose(), "devices").found == "jax failed: RuntimeError: no backend"


def test_a_tpu_that_jax_does_not_see(devices: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    devices["out"] = '{"platform": "cpu", "kind": "cpu", "count": 1}'
    monkeypatch.setattr(doctor, "_tpu_files", lambda: True)
    assert "jax[tpu]" in found(diagnose(), "devices").fix


def test_a_full_disk(devices: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DISK_GIB", 10**9)
    assert any(check.subject.startswith("disk at") and check.health == "fails" for check in diagnose().checks)


def test_a_pack_that_fails_to_load(devices: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tpu-port]\nrules = ["nowhere"]\n')
    monkeypatch.chdir(tmp_path)
    diagnosis = diagnose()
    assert "has no pack.toml" in found(diagnosis, "packs of rules").found
    assert diagnosis.commands["tpu-port SOURCE"]


def test_the_command_prints_and_its_json_has_it_all(
    devices: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert {"subject", "found", "health", "fix", "needed_by"} == set(document["checks"][0])
    assert set(document["commands"]) == {"tpu-port SOURCE", "running a port", "tpu-port export", "tpu-port validate"}
    assert run(["doctor"]) == code
    text = capsys.readouterr().out
    assert "google-tunix" in text and "tpu-port SOURCE: works" in text


def test_it_imports_neither_jax_nor_torch() -> None:
    code = (
        "import sys\nfrom porter.front.doctor import diagnose\ndiagnose(timeout=120)\n"
        "sys.exit(any(name in sys.modules for name in ('jax', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

"""Commands of the Hub in the shell lines of a notebook, under the names of today."""

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from ..notebooks import saved
from .porting import PLAIN


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("!huggingface-cli login", "!hf auth login"),
        ("!huggingface-cli login --token $TOKEN", "!hf auth login --token $TOKEN"),
        ("!transformers-cli login && pwd", "!hf auth login && pwd"),
        (
            "!huggingface-cli download a/b --local-dir-use-symlinks False --local-dir x",
            "!hf download a/b --local-dir x",
        ),
        (
            "!python -c \"from huggingface_hub.hf_api import HfFolder; HfFolder.save_token('x')\"",
            "!python -c \"from huggingface_hub import login; login('x')\"",
        ),
        ("!hf auth login", "!hf auth login"),
        ("!cat my-huggingface-cli login", "!cat my-huggingface-cli login"),
    ],
)
def test_a_command_has_todays_name(tmp_path: Path, line: str, becomes: str) -> None:
    found = port_file(saved(tmp_path / "train.ipynb", line, PLAIN))
    assert found.status == "ported"
    assert f"{becomes}\n" in found.after


def test_another_command_of_theirs_is_named(tmp_path: Path) -> None:
    found = port_file(saved(tmp_path / "train.ipynb", "!huggingface-cli scan-cache", PLAIN))
    said = [finding for finding in found.findings if finding.rule == "TP322"]
    assert [finding.severity for finding in said] == ["warning"]
    assert "!huggingface-cli scan-cache" in found.after

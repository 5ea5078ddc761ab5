"""The newest checkpoint of a folder, as the port asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.runtime.saving.checkpoints import get_last_checkpoint


def test_checkpoints_of_torch_are_not_resumed_in_silence(tmp_path: Path) -> None:
    assert get_last_checkpoint(tmp_path) is None and get_last_checkpoint(tmp_path / "missing") is None
    (tmp_path / "checkpoint-1618").mkdir()
    with pytest.warns(UserWarning, match=r"holds torch's checkpoints .*begins anew"):
        assert get_last_checkpoint(tmp_path) is None
    (tmp_path / "7").mkdir()
    assert get_last_checkpoint(tmp_path) == str(tmp_path / "7")

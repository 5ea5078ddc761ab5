"""What rt.push_to_hub uploads: a folder but for its checkpoints, or the files of a model and nothing else."""

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from porter.runtime.saving import uploads


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What would go to the Hub, which can't be reached: the repository, the commit's title, and the files' names."""
    found: list[dict[str, Any]] = []

    class Api:
        def __init__(self, token: Any = None) -> None:
            self.token = token

        def create_repo(self, name: str, **_: Any) -> Any:
            return huggingface_hub.RepoUrl(f"https://huggingface.co/{name if '/' in name else f'me/{name}'}")

        def upload_folder(self, *, folder_path: Any, ignore_patterns: list[str], **given: Any) -> None:
            files = (str(path.relative_to(folder_path)) for path in Path(folder_path).rglob("*") if path.is_file())
            kept = huggingface_hub.utils.filter_repo_objects(files, ignore_patterns=ignore_patterns)
            said = {name: given[name] for name in ("repo_id", "commit_message")}
            found.append({**said, "token": self.token, "files": sorted(kept)})

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    return found


def test_of_a_model_its_own_files_alone_go(
    sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("KEY=secret")
    monkeypatch.setattr(
        uploads, "save_model", lambda model, folder: (Path(folder) / "adapter.txt").write_text(model[0])
    )
    assert uploads.push_to_hub(["the model"], "me/it", token="t") == "me/it"
    assert sent == [{"repo_id": "me/it", "commit_message": "Upload model", "token": "t", "files": ["adapter.txt"]}]
    assert [path.name for path in tmp_path.iterdir()] == [".env"]  # nothing is left in the folder of the run
    with pytest.raises(ValueError, match="repo_id="):
        uploads.push_to_hub(["the model"])


def test_of_a_folder_its_checkpoints_stay(sent: list[dict[str, Any]], tmp_path: Path) -> None:
    for name in ("model.safetensors", "500/array", "checkpoint-500/model.safetensors", "runs/events", "_tmp"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("")
    assert uploads.push_to_hub(str(tmp_path / "out")) == "me/out"
    assert sent[0]["files"] == ["model.safetensors"] and sent[0]["commit_message"] == "End of training"

"""What a script leaves behind, written down as it happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.validate.comparing.trace import Trace
from porter.validate.observing.events import Events


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Events:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Events(tmp_path / "trace", tmp_path / "work" / "outputs" / "source", str(Path(__file__)))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("out", "out"),
        ("./out/", "out"),
        ("out/final", "out_final"),
        ("{work}/out/final", "out_final"),
        ("{work}/out_final", "out_final"),
        ("{work}/._out/final", "out_final"),
        ("{here}/out", "out"),
        ("/data/run", "data_run"),
        (".", "."),
    ],
)
def test_both_sides_call_a_folder_alike(events: Events, tmp_path: Path, given: str, name: str) -> None:
    work = tmp_path / "work" / "outputs" / "source"

    assert events.path(given.format(work=work, here=tmp_path / "here")) == name


@pytest.mark.parametrize("side", ["source", "port"])
def test_folders_beside_the_one_that_it_runs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    run = tmp_path / side
    (run / "copy" / "src").mkdir(parents=True)
    monkeypatch.chdir(run / "copy" / "src")
    events = Events(run, run / "outside", str(Path(__file__)))
    for given in ("../adapters/final", run / "copy" / "adapters" / "final", run / "copy" / "src" / "adapters/final"):
        assert events.path(given) == "adapters_final"
    assert events.path(run / "home" / "out") == "home_out"


def test_an_event_is_kept_once_with_its_line(events: Events, tmp_path: Path) -> None:
    events.add("weights", "out", ["adapter"])
    events.when = "after"
    events.add("weights", "out", ["adapter"])
    events.add("upload", items=["me/model"])

    found = json.loads((tmp_path / "trace" / "events.json").read_text())
    assert [(each["kind"], each["when"]) for each in found] == [("weights", "before"), ("upload", "after")]
    line = Path(__file__).read_text().splitlines()[found[0]["line"] - 1]
    assert 'events.add("weights"' in line


def test_a_trace_is_read_with_what_came_after_it(events: Events, tmp_path: Path) -> None:
    Trace(config={"steps": 3}).save(tmp_path / "trace")
    assert "events" not in Trace.load(tmp_path / "trace").config
    events.add("tokenizer", "out")

    assert Trace.load(tmp_path / "trace").config["events"][0]["path"] == "out"


class Saved:
    def __init__(self) -> None:
        self.folders: list[Any] = []

    def save_pretrained(self, folder: Any, **unused: Any) -> None:
        self.folders.append(folder)

    def push_to_hub(self, repo: str) -> str:
        raise AssertionError("went to the Hub")


def test_a_save_is_an_event_and_happens(events: Events) -> None:
    owner = type("Owner", (Saved,), {"save_pretrained": Saved.save_pretrained, "push_to_hub": Saved.push_to_hub})
    events.watch_saves(owner, "model")
    events.watch(owner, "push_to_hub", lambda self, repo: events.add("upload", items=[repo]), instead=None)
    model = owner()
    model.save_pretrained("out", push_to_hub=True, repo_id="me/other")

    assert model.folders == ["out"]
    assert model.push_to_hub("me/model") is None
    assert [(each["kind"], each["path"], each["items"]) for each in events.found] == [
        ("weights", "out", ["model"]),
        ("upload", None, ["me/other"]),
        ("upload", None, ["me/model"]),
    ]


def test_what_a_release_lacks_is_not_watched(events: Events) -> None:
    events.watch(Saved, "save_state", lambda *args: None)

    assert not hasattr(Saved, "save_state")


@pytest.mark.real
def test_a_port_may_go_on_saving_with_torch(events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that merges its adapter into the base with PEFT behind its training."""
    import transformers

    from porter.validate.jax_side.asked_for_jax import watch_torch_saves

    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", transformers.PreTrainedModel.save_pretrained)
    peft = pytest.importorskip("peft")
    monkeypatch.setattr(peft.PeftModel, "save_pretrained", peft.PeftModel.save_pretrained)
    watch_torch_saves(events)
    config = transformers.LlamaConfig(
        hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, vocab_size=16
    )
    transformers.LlamaForCausalLM(config).save_pretrained("merged")
    (found,) = json.loads((tmp_path / "trace" / "events.json").read_text())
    assert (found["kind"], found["path"], found["items"]) == ("weights", "merged", ["model"])

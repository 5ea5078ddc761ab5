"""The sidecar: written once model and folder are known, in whichever order, and read back as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from porter.runtime.facts import sidecar
from porter.runtime.facts.families import find_family
from porter.runtime.facts.lora_targets import resolve
from porter.runtime.facts.peft_targets import LoraSpec

CONFIG = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 2, "hidden_size": 64,
    "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "vocab_size": 512,
    "transformers_version": "5.12.1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_model", "_folder", "_written"):
        monkeypatch.setattr(sidecar, name, None)
    monkeypatch.setattr(sidecar, "_used", False)


def model(name: str = "tiny", **lora: object) -> SimpleNamespace:
    family = find_family("Gemma3ForCausalLM")
    assert family is not None
    made = SimpleNamespace(porter=SimpleNamespace(id=name, family=family, config=CONFIG))
    if lora:
        spec = LoraSpec.read(lora)
        made.lora = SimpleNamespace(spec=spec, sites=resolve(family, CONFIG, spec))
    return made


@pytest.mark.parametrize("folder_first", [True, False])
def test_written_when_both_are_known(folder_first: bool, tmp_path: Path) -> None:
    folder, trained = tmp_path / "out", model(r=4, lora_alpha=9, target_modules={"v_proj", "q_proj"}, use_rslora=True)
    calls = [lambda: sidecar.checkpoints_in(folder), lambda: sidecar.describe(trained)]
    for call in calls if folder_first else calls[::-1]:
        assert not folder.exists()
        call()
    written = json.loads((folder / sidecar.NAME).read_text())
    spec, sites = sidecar.read_lora(written["lora"])
    assert sites == trained.lora.sites
    assert (spec.r, spec.lora_alpha, spec.use_rslora, spec.target_modules) == (4, 9, True, ["q_proj", "v_proj"])
    assert written["base"]["id"] == "tiny" and written["base"]["config"] == CONFIG
    assert written["base"]["config_sha256"] == sidecar.config_hash({**CONFIG, "transformers_version": "4", "dtype": 1})
    assert written["base"]["config_sha256"] != sidecar.config_hash({**CONFIG, "hidden_size": 65})


def test_the_adapters_replace_the_bare_model(tmp_path: Path) -> None:
    sidecar.describe(model())
    sidecar.checkpoints_in(tmp_path)
    assert json.loads((tmp_path / sidecar.NAME).read_text())["lora"] is None
    sidecar.describe(model(r=2, target_modules=["q_proj"]))
    assert json.loads((tmp_path / sidecar.NAME).read_text())["lora"]["r"] == 2


def lora_in(folder: Path) -> int | None:
    lora = json.loads((folder / sidecar.NAME).read_text())["lora"]
    return lora and lora["r"]


def test_models_loaded_around_the_trained_one(tmp_path: Path) -> None:
    sidecar.describe(model())
    sidecar.describe(model(r=2, target_modules=["q_proj"]))
    sidecar.describe(model("reference"))
    sidecar.checkpoints_in(tmp_path / "a")
    sidecar.describe(model("evaluated"))
    sidecar.describe(model("judge", r=9, target_modules=["q_proj"]))
    assert lora_in(tmp_path / "a") == 2


def test_a_full_fine_tune_after_another_run(tmp_path: Path) -> None:
    sidecar.describe(model(r=2, target_modules=["q_proj"]))
    sidecar.checkpoints_in(tmp_path / "a")
    sidecar.describe(model("other"))
    sidecar.checkpoints_in(tmp_path / "b")
    assert (lora_in(tmp_path / "a"), lora_in(tmp_path / "b")) == (2, None)
    assert json.loads((tmp_path / "b" / sidecar.NAME).read_text())["base"]["id"] == "other"


def test_no_jax_to_read_one() -> None:
    code = "import sys; from porter.runtime.facts import sidecar, peft_format; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}).returncode == 0

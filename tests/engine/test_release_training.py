"""What a port's training takes from the release that its script was written for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .porting import PLAIN, port


@pytest.mark.parametrize(
    ("release", "said", "decays_norms"),
    [("4.40.2", True, True), ("4.57.3", True, False), ("5.10.0", False, False)],
)
def test_a_trainer_steps_like_its_release(release: str, said: bool, decays_norms: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"# pip install transformers=={release}\n"
        "from datasets import load_from_disk\n"
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")\n'
        'args = TrainingArguments("out", weight_decay=0.1)\n'
        'Trainer(model, args=args, train_dataset=load_from_disk("rows")).train()\n'
    )
    code = port_file(script).after
    assert (f'transformers="{release}"' in code) == said
    assert (f'mask=rt.older_decay_mask(model, "{release}")' in code) == decays_norms


@pytest.mark.parametrize(
    ("model", "release", "said"),
    [
        ("mistralai/Mistral-7B-v0.1", "trl==0.12.2 transformers==4.46.3", True),
        ("mistralai/Mistral-7B-v0.1", "trl==0.14.0 transformers==4.48.3", False),
        ("Qwen/Qwen3-0.6B", "trl==0.12.2 transformers==4.46.3", False),
    ],
)
def test_mistral_took_no_mean_over_tokens_before_4_48(model: str, release: str, said: bool) -> None:
    after = port(f"# pip install {release}\n" + PLAIN.replace("Qwen/Qwen3-0.6B", model)).after
    assert ('mean_over="micro_batch",  # Mistral\'s loss in transformers 4.46.3' in after) == said, after


@pytest.mark.parametrize(
    ("releases", "shuffling"),
    [
        ("trl==0.7.4 transformers==4.35.2 accelerate==0.24.1", "drawn"),
        ("trl==0.7.4 transformers==4.35.2 accelerate==0.18.0", "drawn"),  # older than all that are recorded
        ("trl==0.7.4 transformers==4.35.2 accelerate==0.25.0", "summed"),
        ("trl==0.7.11 transformers==4.37.2", "drawn"),
        ("trl==0.7.11 transformers==4.38.2", ""),
        ("trl==0.8.6", ""),
        ("", ""),
    ],
)
def test_rows_come_in_the_order_that_the_releases_drew(releases: str, shuffling: str) -> None:
    older = PLAIN.replace("SFTConfig, ", "").replace("SFTConfig(", "TrainingArguments(")
    older = older.replace("Qwen/Qwen3-0.6B", "meta-llama/Llama-2-7b-hf")
    found = port(f"# pip install {releases}\nfrom transformers import TrainingArguments\n{older}")
    assert re.findall(r'shuffling="(\w+)"', found.after) == ([shuffling] if shuffling else []), found.after
    nearest = "pinned: ==0.18.0, the nearest that is known" in found.recipe.versions.get("accelerate", "")
    assert nearest is ("0.18.0" in releases)


def test_accelerate_is_that_of_the_file_that_tells_the_other_releases(tmp_path: Path) -> None:
    """A looser file beside it asks for any since 0.25, of which another was out in those days."""
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/requirements-flexible.txt").write_text("accelerate>=0.25.0,<1.0.0\n")
    (tmp_path / "docker/requirements-offline.txt").write_text("trl==0.7.11\ntransformers==4.36.2\naccelerate==0.25.0\n")
    older = PLAIN.replace("SFTConfig, ", "").replace("SFTConfig(", "TrainingArguments(")
    script = tmp_path / "train.py"
    script.write_text(
        f"from transformers import TrainingArguments\n{older.replace('Qwen/Qwen3-0.6B', 'meta-llama/Llama-2-7b-hf')}"
    )
    found = port_file(script)
    assert 'shuffling="summed",  # as transformers 4.36.2, accelerate 0.25.0 did' in found.after, found.after

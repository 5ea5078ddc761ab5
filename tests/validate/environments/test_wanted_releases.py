"""Which releases a script's own environment is of: its pins, what it uses, its day, and what goes together."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from porter.releases.versions import key
from porter.source.project.packages import packages_installed, packages_of_project
from porter.validate.environments.choose import imported_packages, keeps_dropout, source_python, wanted_releases
from porter.validate.environments.make import _kept, constraints, name_of
from porter.validate.environments.sets import era_of, release_sets, wanted_for
from tests.notebooks import saved

GENERATIONS = Path(__file__).parents[3] / "bench" / "generations"


@pytest.mark.parametrize(
    ("name", "trl", "transformers"),
    [
        ("trl_0_7_guanaco", "0.7.4", "4.35.2"),
        ("trl_0_8_completions", "0.8.6", "4.40.2"),
        ("trl_0_11_config", "0.11.4", "4.45"),
        ("trl_0_15_chat", "0.15.2", "4.49"),
        ("trl_0_19_preferences", "0.19.1", "4.5"),
        ("transformers_4_40_trainer", None, "4.40.2"),
    ],
)
def test_a_script_gets_the_releases_it_was_written_for(name: str, trl: str | None, transformers: str) -> None:
    wanted, told = wanted_releases(GENERATIONS / f"{name}.py")
    assert wanted is not None and told == []
    assert trl is None or wanted.pins["trl"] == trl
    assert wanted.pins["transformers"].startswith(transformers)


def test_a_trainer_of_a_module_is_dated_with_its_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from making import make\n\ntrainer = make()\ntrainer.train()\n")
    (tmp_path / "making.py").write_text(
        "from datasets import load_dataset\nfrom trl import SFTConfig, SFTTrainer\n\n\ndef make():\n"
        "    rows = load_dataset('x', split='train')\n"
        "    return SFTTrainer('Qwen/Qwen2.5-0.5B', args=SFTConfig('out'), train_dataset=rows)\n"
    )
    (tmp_path / "requirements.txt").write_text("trl>=0.9.6\n")
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "trl"\nversion = "0.19.1"\n')
    wanted, _ = wanted_releases(tmp_path / "train.py")
    assert wanted is not None and wanted.pins["trl"] == "0.19.1"


def test_a_transformers_older_than_all_is_the_first_that_is_known(tmp_path: Path) -> None:
    """Not the last of its era, which has rows in another order."""
    script = tmp_path / "train.py"
    script.write_text("from transformers import Trainer, TrainingArguments\nTrainer(args=TrainingArguments('out'))\n")
    (tmp_path / "requirements.txt").write_text("accelerate==0.20.3\ntransformers==4.29.2\n")
    wanted, _ = wanted_releases(script)
    assert wanted is not None and wanted.pins["transformers"] == "4.31.0"
    assert wanted.pins["accelerate"] != "0.20.3"  # transformers 4.31 is imported with none that old


@pytest.mark.parametrize(
    ("pin", "more", "keeps"), [("0.5.0", "", True), ("0.5.0", ", disable_dropout=True", False), ("0.7.4", "", False)]
)
def test_a_trainer_of_before_its_switch_keeps_dropout(pin: str, more: str, keeps: bool, tmp_path: Path) -> None:
    """As porting reads it; it runs with 0.7.4, which has the switch on."""
    script = tmp_path / "train.py"
    script.write_text(
        "from transformers import AutoModelForCausalLM, TrainingArguments\nfrom trl import DPOTrainer\n"
        "model = AutoModelForCausalLM.from_pretrained('meta-llama/Llama-2-7b-hf')\n"
        f"DPOTrainer(model, args=TrainingArguments('out'), train_dataset=rows{more}).train()\n"
    )
    (tmp_path / "requirements.txt").write_text(f"trl=={pin}\n")
    assert keeps_dropout(script) is keeps


def test_what_is_installed_is_taken_for_todays_scripts() -> None:
    example = Path(__file__).parents[3] / "examples" / "sft_lora_qwen3.py"
    assert wanted_releases(example) == (None, [])
    assert source_python(example, None) == (Path(sys.executable), [])


@pytest.mark.parametrize(
    ("above", "call", "pins"),
    [
        ("if __name__ == '__main__':\n    ", "dataset_text_field='text', max_seq_length=8", {"trl": "0.12.2"}),
        # one pin that the script contradicts lets the others stand
        (
            "# transformers==4.31.0\n# trl==0.4.7\n# peft==0.4.0\nfrom peft import LoHaConfig\n",
            "tokenizer=None, dataset_text_field='text', max_seq_length=8",
            {"trl": "0.7.0", "transformers": "4.31.0", "peft": "0.6.0"},
        ),
    ],
)
def test_what_a_script_uses_dates_the_environment(above: str, call: str, pins: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"from trl import SFTTrainer\n{above}SFTTrainer(model='m', {call}, train_dataset=None)\n")
    wanted, _ = wanted_releases(script)
    assert wanted is not None and {name: wanted.pins[name] for name in pins} == pins


def test_a_bound_of_the_project_that_goes_against_the_scripts_own_pin_is_let_go(tmp_path: Path) -> None:
    """A notebook that pins TRL 0.15 in a project of today: the port reads transformers 4.49, and so it runs."""
    script = tmp_path / "train.py"
    trains = "SFTTrainer('Qwen/Qwen2.5-0.5B', train_dataset=rows).train()\n"
    script.write_text(f"# pip install trl==0.15.2\nfrom trl import SFTTrainer\n{trains}")
    (tmp_path / "requirements.txt").write_text("transformers>=5.12\npeft>=0.21\naccelerate>=1.15\n")
    wanted, _ = wanted_releases(script)
    assert wanted is not None and wanted.pins["trl"] == "0.15.2"
    assert wanted.pins["transformers"].startswith("4.49.") and key(wanted.pins["peft"]) < (0, 16)


@pytest.mark.parametrize(
    ("above", "load", "release"),
    [
        ("", "model = 'unsloth/gemma-4-E4B-it'", "5.5.0"),
        # what Unsloth mends of the first release, the next ones do
        (
            "from unsloth import FastModel\n",
            "model, tokenizer = FastModel.from_pretrained('unsloth/gemma-4-E4B-it')",
            "5.5.3",
        ),
    ],
)
def test_a_release_of_the_day_loads_the_scripts_model(above: str, load: str, release: str, tmp_path: Path) -> None:
    """Of its era an earlier one is nearer to that TRL, and doesn't have the model."""
    script = tmp_path / "train.py"
    trains = f"{load}\nSFTTrainer(model, train_dataset=rows).train()\n"
    script.write_text(f"# pip install trl==0.24.0\n{above}from trl import SFTTrainer\n{trains}")
    wanted, _ = wanted_releases(script)
    assert wanted is not None and wanted.pins["transformers"] == release


def test_a_pinned_transformers_is_the_one_that_runs(tmp_path: Path) -> None:
    """A looser file stands beside it; of its era a later one would fit, which wants another accelerate."""
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/requirements-flexible.txt").write_text("transformers>=4.36.0\naccelerate>=0.25.0,<1.0.0\n")
    (tmp_path / "docker/requirements-offline.txt").write_text("transformers==4.36.2\naccelerate==0.25.0\n")
    script = tmp_path / "train.py"
    trains = (
        "Trainer(AutoModelForCausalLM.from_pretrained('gpt2'), TrainingArguments('out'), train_dataset=rows).train()\n"
    )
    script.write_text(f"from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n{trains}")
    wanted, _ = wanted_releases(script)
    assert wanted is not None
    assert (wanted.pins["transformers"], wanted.pins["accelerate"]) == ("4.36.2", "0.25.0")


def test_a_bound_of_the_project_leaves_the_day_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = (GENERATIONS / "trl_0_19_preferences.py").read_text()
    script.write_text(text.replace("# pip install trl==0.19.1 transformers==4.53.2 peft==0.16.0\n", ""))
    (tmp_path / "requirements.txt").write_text("trl>=0.12.0\ntransformers>=4.45.0\n")
    wanted, _ = wanted_releases(script)
    assert wanted is not None and wanted.pins["trl"] == "0.28.0"  # the last with max_prompt_length
    assert era_of(wanted.pins["transformers"]) == era_of("5.1")


def test_sets_go_from_old_to_new_and_know_the_installed_libraries() -> None:
    days = [each["day"] for each in release_sets()]
    assert days == sorted(days)
    assert all(
        {"trl", "transformers", "peft", "accelerate", "datasets", "numpy"} <= set(each) for each in release_sets()
    )


def test_another_transformers_takes_its_own_tokenizers() -> None:
    base = next(each for each in release_sets() if each["trl"] == "0.8.6")
    same = wanted_for({"trl": "0.8.6", "transformers": base["transformers"]}, {})
    other = wanted_for({"trl": "0.8.6", "transformers": "4.39.3"}, {})
    assert "tokenizers" in same.pins and "tokenizers" not in other.pins
    assert name_of(same) != name_of(other)


def test_eras_are_half_open() -> None:
    assert era_of("4.40.2") == "<4.42"
    assert era_of("4.51.3") == ">=4.50,<4.52"
    assert era_of("5.12.1") == ">=5.10"


def test_packages_that_compute_come_along_and_the_projects_own_dont(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import nltk\n")
    script = tmp_path / "train.py"
    script.write_text("import helper\nimport wandb\nfrom sklearn.metrics import f1_score\n")
    assert imported_packages(script, lambda module: False) == ["nltk", "scikit-learn"]
    assert imported_packages(script, lambda module: True) == []
    port = tmp_path / "far" / "from" / "its" / "source" / "train_tunix.py"
    port.parent.mkdir(parents=True)
    port.write_text("import helper\n")
    (tmp_path / "requirements.txt").touch()
    assert imported_packages(port, lambda module: False, script) == ["nltk"]


def test_what_a_script_imports_may_take_an_older_numpy_and_no_other_trl() -> None:
    releases = {"numpy": "2.2.0", "packaging": "24.2", "trl": "0.12.2", "typing_extensions": "4.12.2"}
    kept = {"trl", "typing-extensions"}
    assert constraints(releases, kept) == [
        *("numpy<=2.2.0", "packaging<=24.2", "trl==0.12.2", "typing_extensions==4.12.2")
    ]
    assert constraints(releases, None)[0] == "numpy==2.2.0"
    plain = wanted_for({"trl": "0.12.2", "transformers": "4.46.3"}, {})
    assert "numpy" in plain.pins and "numpy" not in _kept(plain) and "typing-extensions" in _kept(plain)


def test_a_port_elsewhere_needs_what_its_projects_modules_import(tmp_path: Path) -> None:
    source, port = tmp_path / "project" / "src" / "train.py", tmp_path / "train_tunix.py"
    source.parent.mkdir(parents=True)
    (source.parents[1] / "requirements.txt").write_text("langchain-core>=0.3\n")
    (source.parent / "rows.py").write_text("from langchain_core.tools import tool\n")
    source.write_text("import unsloth\nfrom src.rows import made\n")
    port.write_text("from src.rows import made\n")
    assert imported_packages(port, lambda module: False) == []
    assert imported_packages(port, lambda module: False, source) == ["langchain-core"]


def test_a_project_asks_for_packages_by_name(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("mahjong==1.2\nhf-transfer\n# fire\n-r more.txt\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "ours"\ndependencies = [\n  "pettingzoo>=1",\n]\n')
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "sdist"\n')
    found = packages_of_project(tmp_path / "train.py")
    assert found == {"mahjong": "mahjong", "hf_transfer": "hf-transfer", "pettingzoo": "pettingzoo"}


def test_a_notebook_asks_for_what_it_installs(tmp_path: Path) -> None:
    cell = "!pip install -qU 'mahjong-kit<2' hands[all] -r more.txt \\\n  git+https://example.org/x/y # not this\n"
    path = saved(tmp_path / "train.ipynb", f"{cell}import mahjong_kit")
    assert packages_installed(cell) == {"mahjong_kit": "mahjong-kit", "hands": "hands"}
    assert imported_packages(path, lambda module: False) == ["mahjong-kit"]


def test_no_environments_says_what_is_missed() -> None:
    python, notes = source_python(GENERATIONS / "trl_0_8_completions.py", None, environments=False)
    assert python == Path(sys.executable)
    assert "trl 0.8.6" in notes[0] and "--no-environments" in notes[0]


# Making and keeping

"""Which releases a source gets, and how their environments are made and kept."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from porter.errors import InputError
from porter.releases.versions import key
from porter.source.project.pins import packages_installed, packages_of_project
from porter.validate.environments import choose, make, store
from porter.validate.environments.choose import imported_packages, keeps_dropout, source_python, wanted_releases
from porter.validate.environments.interpreter import ask
from porter.validate.environments.make import CannotMake, _kept, constraints, environment_for, name_of
from porter.validate.environments.sets import Wanted, era_of, release_sets, wanted_for
from tests.notebooks import saved

GENERATIONS = Path(__file__).parents[3] / "bench" / "generations"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TPU_PORT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "environments"


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

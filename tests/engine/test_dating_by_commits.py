"""The last commit of a script is a day after which nothing that it was written for came out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Port
from porter.source.project.commits import last_committed
from porter.source.project.run_days import days_in, last_run

from ..notebooks import cell, notebook, printed

TRL = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "Qwen/Qwen2.5-0.5B", args=SFTConfig("out"{}), train_dataset=load_dataset("trl-lib/Capybara", split="train")
)
trainer.train()
"""
ALONE = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

trainer = Trainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"),
    TrainingArguments("out"{}),
    train_dataset=load_dataset("json", data_files="tokens.jsonl", split="train"),
)
trainer.train()
"""


def committed(folder: Path, day: str, text: str, name: str = "train.py", **others: str) -> Path:
    script = folder / name
    script.write_text(text)
    for other, held in others.items():
        (folder / other.replace("_", ".")).write_text(held)
    at = f"{day}T12:00:00+00:00"
    env = {**os.environ, "GIT_COMMITTER_DATE": at, "GIT_AUTHOR_DATE": at, "GIT_CONFIG_GLOBAL": os.devnull}
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=folder, env=env, check=True)
    return script


def versions(ported: Port) -> tuple[str, str]:
    found = ported.recipe.versions
    return found["trl"].partition(" ")[0], found["transformers"].partition(" ")[0]


@pytest.mark.parametrize(
    ("day", "text", "read"),
    [
        ("2025-03-10", TRL.format(""), ("0.15.2", "4.49.0")),
        ("2025-03-10", ALONE.format(""), ("0.15.2", "4.49.0")),
        ("2024-10-01", TRL.format(", max_seq_length=9"), ("0.11.1", "4.45.1")),  # TRL 0.19 was the last that took it
        ("2024-10-01", ALONE.format(', evaluation_strategy="no"'), ("0.11.1", "4.45.1")),
        ("2025-01-10", TRL.format(", padding_free=True"), ("1.16.0", "5.12.1")),  # which it can't have known
        ("2023-01-01", ALONE.format("").replace("Qwen/Qwen2.5-0.5B", "huggyllama/llama-7b"), ("0.7.0", "4.31.0")),
    ],
)
def test_a_script_is_for_what_was_out_at_its_last_commit(
    tmp_path: Path, day: str, text: str, read: tuple[str, str]
) -> None:
    ported = port_file(committed(tmp_path, day, text))
    assert versions(ported) == read
    said = [finding.message for finding in ported.findings if finding.message.startswith("Read as")]
    assert bool(said) == (read[0] != "1.16.0") and all(day in message for message in said), said
    early = 'shuffling="drawn",  # as transformers 4.31.0, accelerate 0.22.0 did' in ported.after  # not as 0.28 did
    assert early is (day == "2023-01-01")


def test_pins_and_what_git_does_not_tell_go_first(tmp_path: Path) -> None:
    script = committed(tmp_path, "2024-10-01", TRL.format(""), requirements_txt="trl==0.16.1\n")
    assert versions(port_file(script))[0] == "0.16.1"
    (tmp_path / "requirements.txt").write_text("")
    assert versions(port_file(script))[0] == "0.11.1"
    script.write_text(script.read_text() + "print('done')\n")
    last_committed.cache_clear()
    assert last_committed(script) is None and versions(port_file(script))[0] == "1.16.0"
    assert last_committed(tmp_path / "none.py") is None


def test_a_repository_starts_nothing(tmp_path: Path) -> None:
    """Neither by its settings nor by a script's name."""
    script = committed(tmp_path, "2024-10-01", TRL.format(""), name=":(exclude)*.py")
    trap = f"touch {tmp_path}/started"
    for name, value in (("log.showSignature", "true"), ("gpg.program", trap), ("core.fsmonitor", trap)):
        subprocess.run(["git", "config", name, value], cwd=tmp_path, check=True)
    (tmp_path / ".gitattributes").write_text("* filter=trap\n")
    subprocess.run(["git", "config", "filter.trap.clean", f"{trap}; cat"], cwd=tmp_path, check=True)
    assert str(last_committed(script)) == "2024-10-01" and not (tmp_path / "started").exists()


def test_a_range_ends_where_the_script_was_last_committed(tmp_path: Path) -> None:
    """It was read as the newest of the range, which came out long after."""
    script = committed(tmp_path, "2025-03-10", ALONE.format(""), requirements_txt="transformers>=4.40,<5\n")
    said = port_file(script).recipe.versions["transformers"]
    assert said.startswith("4.49.0 (requirements.txt: transformers>=4.40,<5, and what was out on 2025-03-10"), said


UNSLOTH = """\
from unsloth import FastLanguageModel
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
rows = load_dataset("some/rows", split="train")
trainer = GRPOTrainer(
    model, args=GRPOConfig("out"), reward_funcs=[len], train_dataset=rows, processing_class=tokenizer
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("day", "pins", "read", "beta"),
    [
        ("2025-06-09", "", "2025.6.1", "0.04"),
        ("2025-06-22", "", "2025.6.5", "0.001"),
        ("2025-06-09", "trl==0.18.1\n", "2025.6.1", "0.04"),
        ("2025-06-09", "unsloth==2025.7.11\n", "2025.7.11", "0.001"),
        ("2025-06-09", "trl==0.19.1\n", "2026.8.19", "0.001"),  # of 2025-07: it has been run since
        ("2026-11-01", "trl==0.18.1\n", "2025.7.11", "0.001"),
    ],
)
def test_unsloths_release_was_out_too(tmp_path: Path, day: str, pins: str, read: str, beta: str) -> None:
    ported = port_file(committed(tmp_path, day, UNSLOTH, requirements_txt=pins))
    assert f"Read as Unsloth {read}," in str(ported.findings) and f"beta={beta}," in ported.after


@pytest.mark.parametrize(
    ("day", "pins", "read"),
    [
        ("2026-05-10", "", "5.5.0 (the newest release beside unsloth of 2026-05-10, when"),  # of TRL's day: 4.57
        ("2026-02-20", "", "4.57.6 (the newest release beside unsloth of"),  # 5.2.0 was out, and not taken
        ("2026-02-20", "unsloth==2025.5.6\n", "4.51.3 (the newest release beside unsloth 2025.5.6"),
        ("2026-05-10", "trl==0.19.1\n", "4.53 (of the day of TRL 0.19.1"),
    ],
)
def test_unsloths_transformers_was_out_too(tmp_path: Path, day: str, pins: str, read: str) -> None:
    said = port_file(committed(tmp_path, day, UNSLOTH, requirements_txt=pins)).recipe.versions["transformers"]
    assert said.startswith(read), said


BESIDE_TRAINER = """\
from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import Trainer, TrainingArguments

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
rows = load_dataset("some/rows", split="train")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("pins", "read"),
    [
        ("", "2025.7.1"),
        ("transformers==4.53.0\n", "2025.7.1"),
        ("transformers==4.55.0\n", "2026.8.19"),  # of 2025-08: it has been run since
    ],
)
def test_unsloth_beside_transformers_own_trainer_was_out_too(tmp_path: Path, pins: str, read: str) -> None:
    """The newest TRL of the tables, which the script has nothing of, took the day away."""
    ported = port_file(committed(tmp_path, "2025-07-09", BESIDE_TRAINER, requirements_txt=pins))
    assert ported.recipe.versions["unsloth"].startswith(read) and f'unsloth_counts="{read}"' in ported.after


def test_a_hook_of_another_repository_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git sets these where it runs a hook."""
    script = committed(tmp_path, "2024-10-01", "x = 1\n", name="hooked.py")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert str(last_committed(script)) == "2024-10-01"


@pytest.mark.parametrize(
    ("day", "pinned", "read"),
    [
        ("2026-04-26", "4.47.0", "0.17.0"),  # the last TRL that is installed with it
        ("2025-03-10", "4.47.0", "0.15.2"),  # the last that was out
        ("2024-12-20", "4.47.0", "0.13.0"),
        ("2026-04-26", "4.57.1", "1.3.0"),
        ("2026-04-26", "<4.48", "0.17.0"),
        ("2024-06-20", "4.46.3", "0.12.2"),  # it has been run since: of the pinned release's own day
        ("2026-04-26", "4.41.0", "0.11.4"),  # the metadata of 0.12.2 asks for no least one
    ],
)
def test_a_pinned_transformers_has_the_newest_trl_that_it_allows(
    day: str, pinned: str, read: str, tmp_path: Path
) -> None:
    asked = f"transformers{pinned if '<' in pinned else f'=={pinned}'}"
    script = committed(tmp_path, day, TRL.format(""), requirements_txt=f"{asked}\ntrl\n")
    found = port_file(script)
    assert versions(found)[0] == read, found.recipe.versions
    said = f"on {day}, when the script was last committed" in found.recipe.versions["trl"]
    assert said is (day > "2024-11"), found.recipe.versions


OF_2023 = """\
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DPOTrainer, SFTTrainer, DataCollatorForCompletionOnlyLM

tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-2-7b-hf")
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
reference = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
args = TrainingArguments("out", remove_unused_columns=False)
lora = LoraConfig(r=8, lora_dropout=0.05)
rows = load_dataset("a/b", split="train")
"""
DPO_OF_2023 = (
    "DPOTrainer(model, reference, args=args, train_dataset=rows, tokenizer=tokenizer, peft_config=lora{}).train()"
)
SFT_OF_2023 = """\
collator = DataCollatorForCompletionOnlyLM("### Response:", tokenizer=tokenizer)
SFTTrainer(
    model, args=args, train_dataset=rows, dataset_text_field="text", data_collator=collator, tokenizer=tokenizer{}
).train()
"""


@pytest.mark.parametrize(
    ("day", "pinned", "more", "kept"),
    [
        ("2023-08-14", "", "", True),
        ("2023-08-25", "", "", False),  # 0.6.0 was out
        ("2024-10-01", "trl==0.5.0", "", True),
        ("2024-10-01", "trl==0.6.0", "", False),
        ("2023-08-14", "trl==0.7.4", "", False),
        ("2023-08-14", "", ", disable_dropout=True", False),  # a release that has it
    ],
)
def test_dpo_before_its_switch_keeps_dropout(day: str, pinned: str, more: str, kept: bool, tmp_path: Path) -> None:
    script = committed(tmp_path, day, OF_2023 + DPO_OF_2023.format(more), requirements_txt=f"{pinned}\n")
    found = port_file(script)
    assert ("dropout=0.05" in found.after) is kept
    assert any("has no disable_dropout" in finding.message for finding in found.findings) is kept


def test_a_row_without_the_template_ended_older_runs(tmp_path: Path) -> None:
    script = committed(tmp_path, "2023-08-14", OF_2023 + SFT_OF_2023.format(""))
    said = [finding.message for finding in port_file(script).findings]
    assert any("ends the run at a row that lacks the response template" in message for message in said)


@pytest.mark.parametrize(
    ("day", "transformers", "accelerate"),
    [("2023-11-29", "4.35.2", "0.24.1"), ("2023-08-14", "4.31.0", "0.21.0"), ("2023-12-02", "4.35.2", "0.25.0")],
)
def test_accelerate_is_none_of_after_the_last_commit(
    tmp_path: Path, day: str, transformers: str, accelerate: str
) -> None:
    """0.25.0, of 2023-12-01, drew another order of rows. TRL's first known release is of 2023-08-30."""
    text = ALONE.format("").replace("Qwen/Qwen2.5-0.5B", "huggyllama/llama-7b")
    ported = port_file(committed(tmp_path, day, text))
    assert ported.recipe.versions["accelerate"].partition(" ")[0] == accelerate
    assert f" # as transformers {transformers}, accelerate {accelerate} did" in ported.after


def test_the_first_trl_that_is_known_is_not_the_day_of_an_older_script(tmp_path: Path) -> None:
    """accelerate 0.23 came with TRL 0.7, which stands for the one of before."""
    found = port_file(committed(tmp_path, "2023-08-14", OF_2023 + SFT_OF_2023.format(""))).recipe.versions
    assert found["trl"].startswith("0.7.0 (the first release that is known")
    assert found["accelerate"].startswith("0.21.0 (the newest release on 2023-08-14")


W_AND_B = "Run data is saved locally in <code>/content/wandb/run-20240412_112258-qggzi6fn</code>"
SHOWN = {"data": {"text/html": [W_AND_B], "text/plain": ["<HTML object>"]}, "output_type": "display_data"}
NOTED = {"executionInfo": {"timestamp": 1712920978000}}
TIMED = {
    "execution": {"iopub.execute_input": "2024-04-12T11:22:58.123Z", "shell.execute_reply": "2024-04-12T12:00:00Z"}
}
JUPYTER = {"language_info": {"name": "python", "version": "3.11.4"}}


def ran(text: str, kind: str, metadata: dict[str, object]) -> str:
    own = cell(text, *([SHOWN] if kind == "shown" else [printed("0.5")]))
    own["metadata"] = {"noted": NOTED, "timed": TIMED}.get(kind, {})
    return notebook(own, **metadata)


@pytest.mark.parametrize(
    ("kind", "day", "metadata", "read", "why"),
    [
        ("shown", "2026-08-18", {}, ("0.8.3", "4.39.3"), "2024-04-12, when the notebook last ran"),
        ("noted", "2026-08-18", {}, ("0.8.3", "4.39.3"), "2024-04-12, when the notebook last ran"),
        ("noted", "2024-10-01", JUPYTER, ("0.11.1", "4.45.1"), "2024-10-01, when the script was last committed"),
        ("timed", "2026-08-18", JUPYTER, ("0.8.3", "4.39.3"), "2024-04-12, when the notebook last ran"),
        ("", "2024-10-01", {}, ("0.11.1", "4.45.1"), "2024-10-01, when the script was last committed"),
        ("shown", "2023-12-01", {}, ("0.7.4", "4.35.2"), "2023-12-01, when the script was last committed"),
    ],
)
def test_a_notebook_is_for_what_was_out_when_it_ran(
    kind: str, day: str, metadata: dict[str, object], read: tuple[str, str], why: str, tmp_path: Path
) -> None:
    """It was read as of its commit, two years later."""
    text = ALONE.format("").replace("Qwen/Qwen2.5-0.5B", "huggyllama/llama-7b")
    found = port_file(committed(tmp_path, day, ran(text, kind, metadata), name="train.ipynb"))
    assert versions(found) == read
    assert found.recipe.versions["transformers"].endswith(f"(the newest release on {why})"), found.recipe.versions


def test_a_note_that_is_no_time_tells_nothing(tmp_path: Path) -> None:
    """The whole notebook was an internal error of it."""
    cells = [cell("a = 1"), cell("b = 2")]
    for own, told in zip(cells, (NOTED, {"executionInfo": {"timestamp": 10**30}}), strict=True):
        own["metadata"] = told
    (tmp_path / "train.ipynb").write_text(notebook(*cells))
    assert str(last_run(tmp_path / "train.ipynb")) == "2024-04-12"


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        ("wandb: Run data is saved locally in /a/wandb/offline-run-20240412_112258-qggzi6fn", True),
        ("2024-04-12 11:22:58.123456: I tensorflow/core/util/port.cc:110] oneDNN", True),
        ("[INFO|trainer.py:571] 2024-04-12 11:22:58,123 >> Using auto half", True),
        ("2024-04-12 11:22:58,123 - train - INFO - step 1", True),
        ("--2024-04-12 11:22:58--  https://a.b/c.json", True),
        ("Fri Apr 12 11:22:58 2024       ", True),
        ("Start time: 2024-04-12 11:22:58", True),
        ("training_end_time=2024-04-12", False),
        ("Contract: start date: 2024-04-12", False),  # of a row
        ("runs/events.out.tfevents.1712920978.host.1.0", True),
        ("I0000 00:00:1712920978.123456     123 service.cc:146] XLA", True),
        ("{'date': '2024-04-12 11:22:58', 'text': 'on 2024-04-12'}", False),
        ("run-20241412_112258-qggzi6fn", False),
    ],
)
def test_lines_that_tell_the_day_of_a_run(line: str, tells: bool) -> None:
    assert [str(day) for day in days_in(f"a\n{line}\nb")] == (["2024-04-12"] if tells else [])


@pytest.mark.parametrize(("day", "said"), [("2025-12-15", True), ("2024-07-20", False)])
def test_a_lower_bound_that_is_read_as_the_release_is_told(day: str, said: bool, tmp_path: Path) -> None:
    script = committed(tmp_path, day, TRL.format(""), requirements_txt="trl==0.9.6\ntransformers>=4.42.3\n")
    found = port_file(script)
    assert found.recipe.versions["transformers"].startswith("4.42.3 (the project asks for transformers>=4.42.3)")
    told = [each.message for each in found.findings if "lets in" in each.message]
    assert len(told) == said and all("it lets in 4.57.3, too, the newest on 2025-12-15" in text for text in told)

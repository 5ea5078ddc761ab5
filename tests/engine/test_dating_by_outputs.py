"""Which release a notebook ran on, as a library prints it: Unsloth's banner in the outputs it was saved with."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Port
from tests.notebooks import cell, saved
from tests.notebooks import printed as out

LOADS = """from unsloth import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/llama-3-8b", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, r=8)
"""
TRAINS = """from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTTrainer

rows = load_dataset("x", split="train")
trainer = SFTTrainer(model, args=TrainingArguments("out"), train_dataset=rows, tokenizer=tokenizer{more})
trainer.train()
"""
BANNER = "==((====))==  Unsloth {}: Fast Llama patching. Transformers: {}.\n   \\\\   /|    Tesla T4. Num GPUs = 1.\n"


def ported(folder: Path, printed: str, *, first: str = "", trains: str = TRAINS, more: str = "") -> Port:
    """A notebook whose second cell has printed something when its model was loaded."""
    before = [first] * bool(first)
    return port_file(saved(folder / "train.ipynb", *before, cell(LOADS, out(printed)), trains.replace("{more}", more)))


@pytest.mark.parametrize(
    ("printed", "unsloth", "trl", "transformers"),
    [
        (BANNER.format("2024.12.12", "4.47.1"), "2024.12.12", "0.13.0", "4.47.1"),
        (BANNER.format("2025.3.19", "4.50.0. vLLM: 0.8.2"), "2025.3.19", "0.15.2", "4.50.0"),
        (BANNER.format("2025.8.2", "4.56.0.dev0"), "2025.8.2", "0.21.0", "4.56.0"),
        (BANNER.format("2026.4.4", "5.5.0"), "2026.4.4", "0.24.0", "5.5.0"),
        (
            BANNER.format("2024.9.post4", "4.44.2").replace("Transformers:", "Transformers ="),
            "2024.9",
            "0.10.1",
            "4.44.2",
        ),
        ("==((====))==  Unsloth: Fast Llama patching release 2024.4\n", "2024.4", "0.8.6", ""),
        ("Unsloth 2024.10.7 patched 28 layers with 28 QKV layers.\n", "2024.10.7", "0.11.1", ""),
    ],
)
def test_unsloths_banner_dates_a_notebook(
    tmp_path: Path, printed: str, unsloth: str, trl: str, transformers: str
) -> None:
    found = ported(tmp_path, printed)
    versions = found.recipe.versions
    assert versions["trl"].startswith(f"{trl} (")
    assert versions["unsloth"] == f"{unsloth} (what Unsloth printed: unsloth=={unsloth})"
    if transformers:
        assert versions["transformers"] == f"{transformers} (what Unsloth printed: transformers=={transformers})"


def test_of_several_banners_the_last_counts(tmp_path: Path) -> None:
    found = ported(tmp_path, BANNER.format("2025.3.17", "4.49.0") + BANNER.format("2025.3.18", "4.50.0"))
    assert found.recipe.versions["transformers"].startswith("4.50.0 ")


def test_what_the_notebook_pins_is_stronger(tmp_path: Path) -> None:
    """A banner of older cells: they have been edited for other releases since."""
    pinned = "!pip install transformers==4.56.2 trl==0.22.2 unsloth"
    found = ported(tmp_path, BANNER.format("2024.8", "4.44.2"), first=pinned)
    assert found.recipe.versions["trl"].startswith("0.22.2 (the script")
    assert found.recipe.versions["transformers"].startswith("4.56.2 (the script")
    assert 'unsloth="2026.8.19"' in found.after
    assert [each.message for each in found.findings if "printed" in each.message] == [
        "what Unsloth printed: transformers==4.44.2, which goes against what the script installs: "
        "transformers==4.56.2: not read."
    ]


@pytest.mark.parametrize(
    ("printed", "lacks"),
    [
        (BANNER.format("2024.8", "4.44.2"), "SFTConfig(max_length=) (new in 0.16)"),
        ("Unsloth 2024.10.7 patched 28 layers with 28 QKV layers.\n", "SFTConfig(max_length=) (new in 0.16)"),
    ],
)
def test_a_banner_of_older_cells_is_not_read(tmp_path: Path, printed: str, lacks: str) -> None:
    trains = TRAINS.replace("transformers import TrainingArguments", "trl import SFTConfig")
    trains = trains.replace('TrainingArguments("out")', 'SFTConfig("out", max_length=256)')
    found = ported(tmp_path, printed, trains=trains)
    assert found.recipe.versions["trl"].startswith("0.24.0 (the newest release beside unsloth)")
    said = [each.message for each in found.findings if "printed" in each.message]
    assert len(said) == 1 and "goes against what its cells use" in said[0] and lacks in said[0]


def test_unsloths_own_logging_steps_of_its_day_win(tmp_path: Path) -> None:
    """It made one config of the arguments and of what the trainer got, before 2025.5.8."""
    found = ported(tmp_path, BANNER.format("2024.12.12", "4.47.1"), more=", logging_steps=200")
    assert found.status == "ported" and "rt.log_every(200" in "".join(found.after.split())
    fates = {field.source: field.fate for field in found.recipe.fields}
    assert fates["SFTTrainer.logging_steps"] == "exact"


PLAIN = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = Trainer(model, TrainingArguments("out"), train_dataset=load_dataset("x", split="train"))
trainer.train()
"""
BAR = " 201/201 [00:00&lt;00:00, 9.1it/s, Materializing param=model.norm.weight]".replace(" ", "\N{FIGURE SPACE}")


def plain(folder: Path, printed: str = "", bar: str = "", *, colab: bool = True, source: str = PLAIN) -> dict[str, str]:
    """The releases of a notebook without pins that has printed something, and has kept a progress bar as a widget."""
    kept = {"a1": {"model_name": "HTMLModel", "state": {"value": bar}}}
    widgets = {"application/vnd.jupyter.widget-state+json": kept if colab else {"state": kept, "version_major": 2}}
    path = saved(folder / "train.ipynb", cell(source, out(printed, "stderr")), widgets=widgets)
    return port_file(path).recipe.versions


@pytest.mark.parametrize("colab", [True, False])
def test_a_progress_bar_that_some_releases_alone_have_tells_them(tmp_path: Path, colab: bool) -> None:
    """A notebook of transformers 5.0 to 5.2 was read as the newest, whose tokens and means are others."""
    said = plain(tmp_path, bar=BAR, colab=colab)["transformers"]
    assert said == "5.2.0 (what transformers printed: transformers>=5.0.0,<5.3.0)"
    assert plain(tmp_path)["transformers"].endswith("(newest table)")


@pytest.mark.parametrize(
    ("printed", "transformers"),
    [
        ("Loading checkpoint shards:   0%|          | 0/2", "4.57.6 (what transformers printed: transformers<5.0.0)"),
        ("Loading checkpoint shards: 100%\n`torch_dtype` is deprecated! Use `dtype` instead!", ">=4.56.0,<5.0.0)"),
        ("Downloading shards:   0%", "4.49.0 (what transformers printed: transformers<4.50.0)"),
        ("Loading weights:   0%|", "(newest table)"),
        ("Loading weights: 100%\nLoading checkpoint shards: 100%", "(newest table)"),  # two runs have left their lines
        ("Loading checkpoint shards of mine", "(newest table)"),
    ],
)
def test_lines_that_some_releases_alone_print(tmp_path: Path, printed: str, transformers: str) -> None:
    assert transformers in plain(tmp_path, printed)["transformers"]


def test_trls_own_lines_tell_its_release(tmp_path: Path) -> None:
    source = PLAIN.replace("Trainer, TrainingArguments\n", "TrainingArguments\nfrom trl import SFTTrainer\n")
    source = source.replace("trainer = Trainer(model, ", "trainer = SFTTrainer(model, args=")
    warning = "You didn't pass a `max_seq_length` argument to the SFTTrainer, this will default to 1024"
    assert plain(tmp_path, warning, source=source)["trl"] == "0.12.2 (what TRL printed: trl<0.13.0)"


SFT = PLAIN.replace("Trainer, TrainingArguments\n", "TrainingArguments\nfrom trl import SFTTrainer\n").replace(
    "trainer = Trainer(model, ", "trainer = SFTTrainer(model, args="
)
FILE = "/usr/lib/python3.10/site-packages/trl/trainer/sft_trainer.py:{}: UserWarning: You {}"
POSITIONAL = "Will not be supported from version '{}'.\n\nDeprecated positional argument(s) used in SFTTrainer, please"


@pytest.mark.parametrize(
    ("printed", "trl"),
    [
        (FILE.format(222, "didn't pass a `max_seq_length` argument"), "0.7.9 "),
        (FILE.format(246, "didn't pass a `max_seq_length` argument"), "0.8.6 "),
        (FILE.format(292, "didn't pass a `max_seq_length` argument"), "0.11.4 "),
        (FILE.format(292, "didn't pass another thing"), "(newest table)"),
        (FILE.format(246, "didn't pass a `max_seq_length`").replace("/trl/", "/mine/"), "(newest table)"),
        (FILE.format(403, "passed a processing_class with `padding_side`"), "0.12.2 "),
        ("You passed a processing_class with `padding_side` not equal to `right` to the SFTTrainer.", "0.14.0 "),
        (POSITIONAL.format("1.0.0"), "0.11.4 "),
        (POSITIONAL.format("0.13.0"), "0.12.2 "),
    ],
)
def test_deprecations_and_the_lines_of_warnings_tell_the_release(tmp_path: Path, printed: str, trl: str) -> None:
    assert trl in plain(tmp_path, printed, source=SFT)["trl"]


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        (
            "trl==0.10.1",
            ["trl==0.10.1, but what TRL printed is of trl>=0.12.0,<0.13.0: read as what has run."],
        ),
        ("trl==0.12.1", []),
        ("trl", []),
    ],
)
def test_a_file_that_asks_for_another_release_than_has_run_is_said(tmp_path: Path, pin: str, said: list[str]) -> None:
    (tmp_path / "requirements.txt").write_text(f"{pin}\n")
    trl = plain(tmp_path, POSITIONAL.format("0.13.0"), source=SFT)["trl"]
    assert trl.startswith("0.12.1 (requirements.txt" if "0.12" in pin else "0.12.2 (what TRL printed")
    findings = port_file(tmp_path / "train.ipynb").findings
    found = [each.message.removeprefix("requirements.txt asks for ") for each in findings if "has run" in each.message]
    assert found == said


@pytest.mark.parametrize(
    ("printed", "least"),
    [
        ("Adding EOS to train dataset: 100%|##", "0.17.0"),
        ("{'loss': 1.5, 'num_tokens': 4096.0, 'mean_token_accuracy': 0.6, 'epoch': 1.0}", "0.16.0"),
        ("<th>Training Loss</th>\n<th>Entropy</th>\n<th>Num Tokens</th>\n<th>Mean Token Accuracy</th>", "0.22.0"),
        ("<th>Training Loss</th>", ""),
    ],
)
def test_what_only_later_releases_print_is_stronger_than_a_readme(tmp_path: Path, printed: str, least: str) -> None:
    pins = "- trl==0.7.4\n- transformers==4.37.0\n"
    (tmp_path / "README.md").write_text(f"# Libraries\n\n```\npip install trl==0.7.4 transformers==4.37.0\n```\n{pins}")
    table = {"output_type": "display_data", "metadata": {}, "data": {"text/html": [printed]}}
    path = saved(tmp_path / "train.ipynb", cell(SFT, table if printed.startswith("<") else out(printed, "stderr")))
    found = port_file(path).recipe.versions
    assert ("README.md" in found["trl"], "README.md" in found["transformers"]) == (not least, not least)
    said = [each.message for each in port_file(path).findings if "what TRL printed" in each.message]
    assert [f"goes against what TRL printed (trl>={least}): not read" in each for each in said] == [True] * bool(least)


def test_a_pair_that_cannot_train_is_not_what_has_trained(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.7.4\ntransformers==4.41.0\n")
    for printed, severity in (("", "warning"), ("<th>Training Loss</th>", "error")):
        plain(tmp_path, printed, source=SFT)
        findings = port_file(tmp_path / "train.ipynb").findings
        assert [each.severity for each in findings if "doesn't train under" in each.message] == [severity]


def test_what_the_notebook_uses_is_stronger_than_a_line(tmp_path: Path) -> None:
    source = PLAIN.replace('TrainingArguments("out")', 'TrainingArguments("out", evaluation_strategy="no")')
    assert not plain(tmp_path, bar=BAR, source=source)["transformers"].startswith("5.")

"""Which release a script was written for: pins in the script and in files beside it, and what it uses."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.source.project.pins import _in_script
from porter.source.project.requirements import in_file

SCRIPT = """from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=load_dataset("x", split="train"))
trainer.train()
"""


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("!pip install -q trl==0.8.6 peft", [("==", "0.8.6")]),
        ('# pip install "trl>=0.7,<0.9"', [(">=", "0.7"), ("<", "0.9")]),
        ('assert trl.__version__ == "0.8.6"', [("==", "0.8.6")]),
        ("git+https://github.com/huggingface/trl.git@v0.7.10", [("==", "0.7.10")]),
        ("git+https://github.com/huggingface/trl@v0.7.10-Some-Model", [("==", "0.8.0")]),  # a preview of the next
        ("git+https://github.com/huggingface/trl@v0.7-release", [("==", "0.7")]),
        ("git+https://github.com/huggingface/trl@1234abc", []),
        ('if trl.__version__ < "0.9":', []),
        ("pip install trlx==0.7", []),
        ("!pip install trl==0.7.10\n!pip install -U trl", []),
        ("!pip install trl==0.7.10\n!pip install trl peft", [("==", "0.7.10")]),
        ("!pip install trl==0.7.10\n!pip install -q trl==0.8.6", [("==", "0.8.6")]),
        ("!pip install trl==0.7.10\n!pip install -q git+https://github.com/huggingface/trl.git", []),
        ("!pip install -U trl\n!pip install trl==0.7.10", [("==", "0.7.10")]),
        ("!pip install trl==0.7.10\n!pip install -U 'some-trl-tool'", [("==", "0.7.10")]),
    ],
)
def test_a_script_pins_a_release(text: str, pins: list[tuple[str, str]]) -> None:
    assert _in_script(text, "trl") == pins


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("torch\ntrl>=0.8\n", [(">=", "0.8")]),
        ('trl = "^0.8.6"\n', [(">=", "0.8.6"), ("<", "0.9")]),
        ('name = "trl"\nversion = "0.9.6"\n', [("==", "0.9.6")]),
        ("  - trl=0.8.6\n", [("==", "0.8.6")]),
        ('dependencies = [\n  "trl~=0.8.1",\n', [("~=", "0.8.1")]),
    ],
)
def test_a_file_pins_a_release(text: str, pins: list[tuple[str, str]]) -> None:
    assert in_file(text, "trl") == pins


OF_BEFORE_13 = SCRIPT.replace("train_dataset=", "max_seq_length=64, train_dataset=")
OF_2024 = SCRIPT.replace("Qwen3", "Qwen2.5")


@pytest.mark.parametrize(
    ("text", "files", "trl", "transformers"),
    [
        # a lock file tells which of a range it is
        (
            SCRIPT,
            {"requirements.txt": "trl>=0.9,<0.13\n", "uv.lock": 'name = "trl"\nversion = "0.12.1"\n'},
            "0.12.1",
            "",
        ),
        (
            SCRIPT,
            {"requirements.txt": "trl>=0.9,<0.13\n", "uv.lock": 'name = "trl"\nversion = "0.14.0"\n'},
            "0.12.2",
            "",
        ),
        (
            SCRIPT,
            {"pyproject.toml": '"trl>=0.9,<0.13"\n', "pdm.lock": '[[package]]\nname = "trl"\nversion = "0.11.4"\n'},
            "0.11.4",
            "",
        ),
        # the lock file wins that the project's own lines run on
        (
            '"""uv run train.py"""\n' + SCRIPT,
            {"requirements.txt": "trl==0.9.6\n", "uv.lock": 'name = "trl"\nversion = "0.12.1"\n'},
            "0.12.1",
            "",
        ),
        (
            SCRIPT,
            {
                "requirements.txt": "trl==0.9.6\n",
                "poetry.lock": 'name = "trl"\nversion = "0.12.1"\n',
                "README.md": "poetry run python train.py\n",
            },
            "0.12.1",
            "",
        ),
        (
            SCRIPT,
            {
                "requirements.txt": "trl==0.9.6\n",
                "uv.lock": 'name = "trl"\nversion = "0.12.1"\n',
                "README.md": "uv run x\npip install -r requirements.txt\n",
            },
            "0.9.6",
            "",
        ),
        # an accelerate alone tells the day, too
        (OF_2024, {"requirements.txt": "trl\naccelerate==0.34.2\n"}, "0.11.4", "4.45.1"),
        (SCRIPT, {"requirements.txt": "trl==0.24.0\naccelerate==0.34.2\n"}, "0.24.0", "4.57"),
        (SCRIPT, {"requirements.txt": "trl\naccelerate>=0.34.2\n"}, "1.16.0", ""),
        (SCRIPT, {"pixi.toml": "", "pixi.lock": "- kind: pypi\n  name: trl\n  version: 0.11.4\n"}, "0.11.4", ""),
        (SCRIPT, {"requirements.txt": "trl>=0.9,<0.13\n", "README.md": "pip install trl==0.11.4\n"}, "0.11.4", ""),
        # a range of transformers up to 5 holds what was out in the days of a TRL that is told by itself
        (OF_BEFORE_13, {"pyproject.toml": 'transformers = "^4.45.2"\n'}, "0.12.2", "4.46.3"),
        (SCRIPT, {"requirements.txt": "trl==0.24.0\ntransformers>=4.51,<5\n"}, "0.24.0", "4.57.6"),
        (SCRIPT, {"requirements.txt": "trl==0.18.2\ntransformers>=4.51,<5\n"}, "0.18.2", "4.52.4"),
        (SCRIPT, {"requirements.txt": "trl==0.18.2\ntransformers>=4.54,<5\n"}, "0.18.2", "4.54.0"),
        # what ends at a minor release has been tried up to there
        (SCRIPT, {"requirements.txt": "trl<0.19\ntransformers>=4.51,<4.55\n"}, "0.18.2", "4.54.1"),
        (SCRIPT, {"requirements.txt": "transformers>=4.51,<5\n"}, "0.27.2", "4.57.6"),
    ],
)
def test_a_range_holds_what_went_together(
    tmp_path: Path, text: str, files: dict[str, str], trl: str, transformers: str
) -> None:
    for name, held in files.items():
        (tmp_path / name).write_text(held)
    (tmp_path / "train.py").write_text(text)
    versions = port_file(tmp_path / "train.py").recipe.versions
    assert versions["trl"].startswith(f"{trl} (") and versions["transformers"].startswith(transformers)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-16-be"])
def test_requirements_are_read_as_pip_reads_them(encoding: str, tmp_path: Path) -> None:
    """PowerShell's `pip freeze > requirements.txt` writes UTF-16 with a byte order mark."""
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    (tmp_path / "requirements.txt").write_bytes(mark + "trl==0.11.4\r\ntransformers==4.44.2\r\n".encode(encoding))
    (tmp_path / "train.py").write_text(SCRIPT.replace("Qwen3", "Qwen2.5"))
    versions = port_file(tmp_path / "train.py").recipe.versions
    assert versions["trl"].startswith("0.11.4 (") and versions["transformers"].startswith("4.44.2 (")


def test_what_a_place_asks_for_of_another_library_is_said(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.24.0\ntransformers==4.50.0\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    [said] = [each.message for each in port_file(tmp_path / "train.py").findings if "not read" in each.message]
    assert said.startswith("requirements.txt asks for trl==0.24.0 beside transformers==4.50.0, which goes against what")


@pytest.mark.parametrize(
    ("requirement", "version"),
    [("trl==0.11.4", "0.11.4"), ("trl<0.12", "0.11.4"), ("trl>=0.9", "1.16.0"), ("trl~=0.9.3", "0.9.6")],
)
def test_requirements_beside_the_script_date_it(tmp_path: Path, requirement: str, version: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch\n{requirement}\n")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    said = port_file(script).recipe.versions["trl"]
    assert said.split(" ")[0] == version
    assert ("requirements.txt" in said) is (version != "1.16.0")


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        ("run.sh", "set -e\npip install -q trl==0.9.6\naccelerate launch train.py\n", "0.9.6"),
        ("scripts/setup.sh", "uv pip install \\\n  torch \\\n  'trl==0.9.6' \\\n  peft\n", "0.9.6"),
        ("setup.sh", "# pip install trl==0.9.6\npip install torch # trl==0.9.4\n", "1.16.0"),
        ("setup.sh", "echo uses trl==0.9.6\n", "1.16.0"),
        ("Dockerfile", "FROM x\nRUN pip3 install torch==2.3 \\\n    trl==0.9.6\n", "0.9.6"),
        ("README.md", "Runs trl==0.7.4.\n\n```bash\npip install trl==0.9.6\n```\n", "0.9.6"),
        ("README.md", "pip install git+https://github.com/huggingface/trl@v0.9.6\n", "0.9.6"),
        ("README.md", "pip install git+https://github.com/huggingface/trl@7630f877\n", "1.16.0"),
        ("conda_env.yml", "dependencies:\n  - trl=0.9.6\n", "0.9.6"),
        ("environment.yml", "dependencies:\n  - pip:\n    - trl==0.9.6\n", "0.9.6"),
        ("install.sh", "conda install -y trl=0.9.6\n", "0.9.6"),
    ],
)
def test_commands_that_install_date_it(tmp_path: Path, file: str, text: str, version: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    (tmp_path / "train.py").write_text(SCRIPT)
    said = port_file(tmp_path / "train.py").recipe.versions["trl"]
    assert said.split(" ")[0] == version and (Path(file).name in said) is (version != "1.16.0")


TRAINED = """\
import transformers
from datasets import load_dataset
{told}
rows = load_dataset("x", split="train")
model = transformers.AutoModelForCausalLM.from_pretrained("huggyllama/llama-7b")
trainer = transformers.Trainer(model, transformers.TrainingArguments("out"), train_dataset=rows)
trainer.train()
"""
ADVICE = (
    "Please reinstall it: pip uninstall transformers && pip install git+https://github.com/huggingface/transformers"
)


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        (f'assert "x" in transformers._import_structure, (\n    "{ADVICE}"\n)', True),
        (f'if not rows:\n    raise ImportError("{ADVICE}")', True),
        (f"# {ADVICE}", False),
    ],
)
def test_a_message_is_no_command(tmp_path: Path, told: str, counts: bool) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.40.2\n")
    (tmp_path / "train.py").write_text(TRAINED.format(told=told))
    ported = port_file(tmp_path / "train.py")
    assert ported.recipe.versions["transformers"].startswith("4.40.2 (requirements.txt") is counts
    assert any("not read" in finding.message for finding in ported.findings) is not counts


def test_a_transformers_that_the_project_pins_is_not_said_to_be_a_guess(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINED.format(told=""))
    for pinned in (True, False):
        (tmp_path / "requirements.txt").write_text("transformers==4.40.2\n" if pinned else "transformers<4.41\n")
        said = [each.message for each in port_file(tmp_path / "train.py").findings if "Read as" in each.message]
        assert bool(said) is not pinned, said


OLD = "pip install trl==0.8.6"
TODAY = ("1.16.0", "(trl>=0.20)")


@pytest.mark.parametrize(
    ("files", "version", "passed_over"),
    [
        ({"requirements.txt": "trl>=0.19.0\n", "README.md": OLD}, "1.16.0", "README.md asks for trl==0.8.6"),
        ({"requirements.txt": "trl>=0.19.0\n", "README.md": "pip install trl==0.18.1"}, "1.16.0", "(trl>=0.19.0)"),
        ({"requirements.txt": "trl>=0.19.0\n", "README.md": "pip install trl==0.19.1"}, "0.19.1", ""),
        ({"requirements.txt": "trl\n", "README.md": f"cd eval && {OLD} transformers==4.38.0"}, "1.16.0", "README.md"),
        ({"Dockerfile.eval": f"RUN {OLD} lm-eval"}, "1.16.0", "what the script uses (trl>=0.9.2)"),
        ({"README.md": "Do not `pip install trl==0.9.6`: it is broken."}, "1.16.0", ""),
        ({"README.md": "Don't forget to `pip install trl==0.9.6`."}, "0.9.6", ""),
        (
            {"pyproject.toml": '[project]\ndependencies=["trl>=0.20"]\n', "a.sh": "pip install trl==0.9.6"},
            "1.16.0",
            "a.sh",
        ),
        ({"../requirements.txt": "trl==0.19.0\n", "README.md": "pip install trl==0.9.6"}, "0.19.0", "README.md"),
        ({"setup.sh": "pip install trl==0.9.6\n# newer\npip install -U trl==0.19.0\n"}, "0.19.0", ""),
        ({"setup.sh": "pip install trl==0.9.6 && pip install trl==0.19.0\n"}, "0.19.0", ""),
        ({"setup.sh": f"pip install trl==0.19.0\n(cd eval && {OLD})\n"}, "0.19.0", "setup.sh"),
        ({"setup.sh": "pip install trl==0.9.6\npip install -U trl\n"}, "1.16.0", ""),
        ({"setup.sh": "pip install trl==0.9.6\npip install -U peft\n"}, "0.9.6", ""),
        # Lists and tables that install nothing.
        ({"README.md": "Needs:\n```\ntrl==0.9.6\npeft==0.11.1\n```\n"}, "0.9.6", ""),
        ({"README.md": "- TRL 0.9.6\n- torch 2.1\n"}, "0.9.6", ""),
        ({"README.md": "| library | release |\n|---|---|\n| `trl` | 0.9.6 |\n"}, "0.9.6", ""),
        ({"README.md": "* **trl**: `v0.9.6`\n"}, "0.9.6", ""),
        ({"README.md": "- `trl>=0.9,<0.10` - training utilities\n"}, "0.9.6", ""),
        ({"README.md": "trl==0.9.6\n\npip install trl==0.19.0\n"}, "0.19.0", ""),
        ({"README.md": "trl==0.9.6\n\npip install -U trl\n"}, "1.16.0", ""),
        ({"README.md": "TRL 1.x works, trl 0.9.6 doesn't.\n| TRL | 0.96 |\n"}, "1.16.0", ""),
        (
            {
                "README.md": "- trl 0.9.6\n- transformers 4.38.0\n",
            },
            "1.16.0",
            "README.md",
        ),
    ],
)
def test_commands_come_last_and_must_fit(tmp_path: Path, files: dict[str, str], version: str, passed_over: str) -> None:
    (tmp_path / "run").mkdir()
    for name, text in files.items():
        (tmp_path / "run" / name).write_text(text)
    (tmp_path / "run" / "train.py").write_text(SCRIPT)
    ported = port_file(tmp_path / "run" / "train.py")
    assert ported.recipe.versions["trl"].partition(" ")[0] == version
    said = [each.message for each in ported.findings if "not read" in each.message]
    assert len(said) == bool(passed_over) and all(passed_over in message for message in said)


PARSER = """from datasets import load_dataset
from transformers import HfArgumentParser, TrainingArguments
from trl import SFTTrainer

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("x", split="train"))
trainer.train()
"""


@pytest.mark.parametrize(
    ("command", "dated"),
    [
        ("accelerate launch --num_processes 4 train.py \\\n  --evaluation_strategy no", "run.sh"),
        ("SCRIPT=1 torchrun --nproc_per_node=4 src/train.py --evaluation_strategy=epoch", "run.sh"),
        ("python -m src.train --evaluation_strategy no", "run.sh"),
        ("cd src && python -m train --evaluation_strategy no", "run.sh"),
        ("cd gone && python train.py --evaluation_strategy no", "run.sh"),
        ("python ./dpo/../src/train.py --evaluation_strategy no", "run.sh"),
        ("python $HERE/train.py --evaluation_strategy no", "run.sh"),
        ("python ../src/train.py --evaluation_strategy no", "run.sh"),
        ("python /app/src/train.py --evaluation_strategy no", "run.sh"),
        ("python /app/dpo/train.py --evaluation_strategy no", ""),
        ("python dpo/train.py --evaluation_strategy no", ""),
        ("python $HERE/dpo/train.py --evaluation_strategy no", ""),
        ("DIR=dpo\npython $DIR/train.py --evaluation_strategy no", ""),
        ("python -m dpo.train --evaluation_strategy no", ""),
        ("cd dpo && python train.py --evaluation_strategy no", ""),
        ("cd dpo\npython train.py --evaluation_strategy no", ""),
        ("python other.py --evaluation_strategy no", ""),
        ("python train.py --eval_strategy no", ""),
        ("# python train.py --evaluation_strategy no", ""),
        ("python train.py --config sft.yaml", "sft.yaml"),
    ],
)
def test_flags_of_the_command_line_date_it(tmp_path: Path, command: str, dated: str) -> None:
    (tmp_path / "sft.yaml").write_text("output_dir: out\nevaluation_strategy: epoch\n")
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{command}\n")
    (tmp_path / "dpo").mkdir()
    script = tmp_path / "src" / "train.py"
    script.parent.mkdir()
    script.write_text(PARSER)
    versions = port_file(script).recipe.versions
    said = f"TrainingArguments(evaluation_strategy=) of {dated} " if dated else ""
    assert (said in versions["trl"]) if said else ("evaluation_strategy" not in versions["trl"]), versions
    script.write_text(SCRIPT)  # which parses no command line
    assert "evaluation_strategy" not in port_file(script).recipe.versions["trl"]


def test_what_stands_in_a_try_dates_nothing(tmp_path: Path) -> None:
    guarded = "try:\n    from trl import DataCollatorForCompletionOnlyLM\nexcept ImportError:\n    pass\n"
    script = tmp_path / "train.py"
    script.write_text(guarded + SCRIPT)
    assert port_file(script).recipe.versions["trl"].startswith("1.16.0")
    script.write_text("from trl import DataCollatorForCompletionOnlyLM\n" + SCRIPT)
    assert not port_file(script).recipe.versions["trl"].startswith("1.16.0")


@pytest.mark.parametrize(
    "said",
    [
        "Successfully installed accelerate-0.30.1 transformers-4.41.1 trl-0.9.4 tyro-0.8.4\\n",
        "  Downloading trl-0.9.4-py3-none-any.whl (245 kB)\\n",
        "Requirement already satisfied: trl in /usr/lib/python3/dist-packages (from -r needs.txt) (0.9.4)\\n",
        "Successfully installed trl-0.9.4\\nSuccessfully installed sentence-trl-3.0.1\\n",
        "Requirement already satisfied: trl in /lib (0.9.4)\\nRequirement already satisfied: mkl in /lib (2024.2.0)\\n",
    ],
)
def test_what_a_notebook_installed_dates_it(tmp_path: Path, said: str) -> None:
    code = json.dumps(SCRIPT.replace("Qwen3", "Qwen2").splitlines(keepends=True))
    printed = f'{{"name": "stdout", "output_type": "stream", "text": ["{said}"]}}'
    cells = ",".join(
        f'{{"cell_type": "code", "metadata": {{}}, "execution_count": 1, "outputs": [{out}], "source": {source}}}'
        for out, source in ((printed, '["!pip install trl"]'), ("", code))
    )
    path = tmp_path / "train.ipynb"
    path.write_text(f'{{"cells": [{cells}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}')
    assert port_file(path).recipe.versions["trl"].startswith("0.9.4 (what the notebook installed")
    pinned = path.read_text().replace("!pip install trl", "!pip install trl==0.10.1")
    path.write_text(pinned)
    assert port_file(path).recipe.versions["trl"].startswith("0.10.1 (the script")


@pytest.mark.parametrize(
    ("pins", "named"),
    [
        ("peft==0.14.0\n", "0.14.0 (requirements.txt: peft==0.14.0)"),
        ("peft==0.4.0\n", "0.5.0 (requirements.txt: peft==0.4.0, the first that is known)"),
        ("peft>=0.4\n", "0.21.2 (newest table)"),
    ],
)
def test_the_peft_of_the_project_is_named(tmp_path: Path, pins: str, named: str) -> None:
    (tmp_path / "requirements.txt").write_text(pins)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    assert port_file(path).recipe.versions["peft"] == named


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('print("TRL:", trl.__version__)', "TRL: 0.9.4\n"),
        ('import trl\nprint(f"  trl: {trl.__version__}")', "torch: 2.4.0\n  trl: 0.9.4\n"),
        ("print(trl.__version__)", "0.9.4\n"),
        ("trl.__version__", "'0.9.4'"),
        ("print('trl =', trl.__version__, flush=True)", "a warning 1.2.3\ntrl = 0.9.4\n"),
    ],
)
def test_what_a_notebook_printed_dates_it(tmp_path: Path, source: str, said: str) -> None:
    """Over what pip said: a kernel that isn't started anew goes on with what it had."""
    installed = "Successfully installed trl-1.4.0\n"
    outputs = [{"name": "stdout", "output_type": "stream", "text": [said]}]
    if not source.startswith(("print", "import")):
        shown_last = {"output_type": "execute_result", "metadata": {}, "execution_count": 1}
        outputs = [{**shown_last, "data": {"text/plain": said}}]
    cells = [
        {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": shown, "source": code}
        for code, shown in (
            ("!pip install trl", [{"name": "stdout", "output_type": "stream", "text": [installed]}]),
            (source, outputs),
            (SCRIPT, []),
        )
    ]
    path = tmp_path / "train.ipynb"
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook))
    assert port_file(path).recipe.versions["trl"].startswith("0.9.4 (what the notebook printed")
    cells[1]["outputs"] = []
    path.write_text(json.dumps(notebook))
    assert not port_file(path).recipe.versions["trl"].startswith("0.9.4")


def test_what_a_notebook_installed_last_is_not_read_where_its_cells_cannot_run_on_it(tmp_path: Path) -> None:
    """Colab's outputs are of the last run, which may have ended at the trainer: TRL 1.4 takes no max_seq_length."""
    printed = '["Successfully installed datasets-4.0.0 transformers-5.8.0 trl-1.4.0 unsloth-2025.1.1\\n"]'
    cells = [
        f'{{"cell_type": "code", "metadata": {{}}, "execution_count": 1, "outputs": {out}, "source": {source}}}'
        for out, source in (
            (f'[{{"name": "stdout", "output_type": "stream", "text": {printed}}}]', '["!pip install trl"]'),
            (
                "[]",
                json.dumps(
                    SCRIPT.replace('SFTConfig("out")', "SFTConfig('out', max_seq_length=9)").splitlines(keepends=True)
                ),
            ),
        )
    ]
    path = tmp_path / "train.ipynb"
    path.write_text(f'{{"cells": [{",".join(cells)}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}')
    found = port_file(path)
    assert found.recipe.versions["trl"].startswith("0.19.1 (the newest release with")
    said = [each.message for each in found.findings if "the notebook installed" in each.message]
    assert said == [
        "what the notebook installed: trl==1.4.0, which goes against what its cells use: SFTConfig(max_seq_length=) "
        "(gone in 0.20): not read."
    ]


@pytest.mark.parametrize(("command", "reads"), [("-U trl", False), ("-q trl", True), ("-U peft", True)])
def test_a_script_that_installs_the_newest_needs_no_file_beside_it(tmp_path: Path, command: str, reads: bool) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.24.0\n")
    (tmp_path / "train.py").write_text(f"# pip install {command}\n{SCRIPT}")
    found = port_file(tmp_path / "train.py")
    assert found.recipe.versions["trl"].startswith("0.24.0 (requirements.txt" if reads else "1.16.0 (newest table)")
    said = [each.message for each in found.findings if "not read" in each.message]
    assert len(said) == (not reads) and all("which installs the newest trl" in message for message in said)

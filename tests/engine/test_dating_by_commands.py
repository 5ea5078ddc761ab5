"""Which release a script was written for: commands that install or start it, and lists that only name what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from .dated_scripts import SCRIPT


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
        ("README.md", "pip install git+https://github.com/huggingface/trl@314e8eb\n", "0.9.6"),
        ("requirements.txt", "git+https://github.com/huggingface/trl@314e8eb\n", "0.9.6"),
        ("README.md", "pip install git+https://github.com/huggingface/trl@0123abcd\n", "1.16.0"),
        ("conda_env.yml", "dependencies:\n  - trl=0.9.6\n", "0.9.6"),
        ("environment.yml", "dependencies:\n  - pip:\n    - trl==0.9.6\n", "0.9.6"),
        ("install.sh", "conda install -y trl=0.9.6\n", "0.9.6"),
        ("run.sh", "uv run --with trl==0.9.6 --with peft train.py\n", "0.9.6"),
        ("Dockerfile", "FROM huggingface/trl-gpu:0.9.6\nRUN pip install peft\n", "0.9.6"),
        ("Dockerfile", "FROM x.dkr.ecr.y.amazonaws.com/huggingface-training:2.1.0-trl0.9.6-gpu-py310\n", "0.9.6"),
        ("Dockerfile", "FROM huggingface/trl-gpu:0.9.4\nRUN pip install trl==0.9.6\n", "0.9.6"),
        ("Dockerfile", "FROM nvcr.io/nvidia/pytorch:24.05-py3\n", "1.16.0"),
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
        (f'print(f"   {ADVICE}")', True),
        (f'import logging\nlogging.getLogger().warning("none: " + "{ADVICE}")', True),
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
        ({"README.md": "| kind | is | release |\n|---|---|---|\n| trainer | **TRL (SFT)** | 0.9.6 |\n"}, "0.9.6", ""),
        ({"README.md": "| library | least | best |\n|---|---|---|\n| loss | trl | 0.9.4 | 0.9.6 |\n"}, "1.16.0", ""),
        ({"README.md": "```\ntorch==2.5.1+cu124  trl==0.9.6  peft==0.11.1\n```\n"}, "0.9.6", ""),
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
    said = [each.message for each in ported.findings if "not read" in each.message or ", but " in each.message]
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
        ("python train.py sft.json", "sft.json"),
    ],
)
def test_flags_of_the_command_line_date_it(tmp_path: Path, command: str, dated: str) -> None:
    (tmp_path / "sft.yaml").write_text("output_dir: out\nevaluation_strategy: epoch\n")
    (tmp_path / "sft.json").write_text('{"output_dir": "out", "evaluation_strategy": "epoch"}')
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


OWN_FIELD = """from dataclasses import dataclass


@dataclass
class Ours:
    evaluation_strategy: str = "no"


(ours, args) = HfArgumentParser((Ours, TrainingArguments))."""
OWN_OPTION = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--evaluation_strategy")
ours = parser.parse_args()
args = TrainingArguments(ours.evaluation_strategy)
"""


@pytest.mark.parametrize("own", [OWN_FIELD, OWN_OPTION])
def test_a_flag_of_the_scripts_own_dates_nothing(tmp_path: Path, own: str) -> None:
    (tmp_path / "run.sh").write_text("python train.py --evaluation_strategy no\n")
    parse = PARSER[PARSER.index("(args,)") : PARSER.index("trainer =")]
    given = own + "parse_args_into_dataclasses()\n" if own is OWN_FIELD else own
    script = tmp_path / "train.py"
    script.write_text(PARSER.replace(parse, given))
    assert "evaluation_strategy" not in port_file(script).recipe.versions["trl"]


@pytest.mark.parametrize(
    ("parse", "where"),
    [
        ('parse_json_file("sft.json")', "sft.json"),
        ('parse_yaml_file(yaml_file="sft.yaml")', "sft.yaml"),
        ('parse_dict(yaml.safe_load(open("sft.yaml")))', "what it parses"),
        ('parse_dict({"output_dir": "out", "evaluation_strategy": "epoch"})', "what it parses"),
    ],
)
def test_what_a_parser_reads_of_a_file_or_a_dictionary_dates_it(tmp_path: Path, parse: str, where: str) -> None:
    """Such a port was read as the newest release, whose parser ends it."""
    (tmp_path / "sft.yaml").write_text("output_dir: out\nevaluation_strategy: epoch\n")
    (tmp_path / "sft.json").write_text('{"output_dir": "out", "evaluation_strategy": "epoch"}')
    (tmp_path / "train.py").write_text(f"import yaml\n{PARSER}".replace("parse_args_into_dataclasses()", parse))
    said = port_file(tmp_path / "train.py").recipe.versions["trl"]
    assert f"TrainingArguments(evaluation_strategy=) of {where} " in said, said


@pytest.mark.parametrize(("command", "reads"), [("-U trl", False), ("-q trl", True), ("-U peft", True)])
def test_a_script_that_installs_the_newest_needs_no_file_beside_it(tmp_path: Path, command: str, reads: bool) -> None:
    (tmp_path / "requirements.txt").write_text("trl==0.24.0\n")
    (tmp_path / "train.py").write_text(f"# pip install {command}\n{SCRIPT}")
    found = port_file(tmp_path / "train.py")
    assert found.recipe.versions["trl"].startswith("0.24.0 (requirements.txt" if reads else "1.16.0 (newest table)")
    said = [each.message for each in found.findings if "not read" in each.message]
    assert len(said) == (not reads) and all("which installs the newest trl" in message for message in said)


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        # Tags of states on the way to a release, and what such a state calls itself.
        ("git+https://github.com/huggingface/transformers@v4.49.0-Gemma-3", ("0.15.2", "4.50.0")),
        ("transformers==4.50.0.dev0", ("0.15.2", "4.50.0")),
        ("transformers==4.50.0", ("0.16.1", "4.50.0")),
        ("git+https://github.com/huggingface/transformers@v4.51.3-GLM-4-preview", ("0.17.0", "4.52.1")),
        ("git+https://github.com/huggingface/transformers@v4.57.0-Some-preview", ("0.27.2", "4.57.6")),
        ("trl==0.16.0.dev0", ("0.16.0", "4.50")),
    ],
)
def test_a_state_on_the_way_to_a_release_is_of_before_its_day(
    tmp_path: Path, asked: str, read: tuple[str, str]
) -> None:
    (tmp_path / "requirements.txt").write_text(f"{asked}\n")
    (tmp_path / "train.py").write_text(SCRIPT.replace("Qwen3", "Qwen2.5"))
    versions = port_file(tmp_path / "train.py").recipe.versions
    assert (versions["trl"].split()[0], versions["transformers"].split()[0]) == read
    assert ".dev0" in versions["transformers"] + versions["trl"] or "4.50.0" in asked


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("trl @ git+https://github.com/huggingface/trl.git@0123abcd3c3647b86f251b7e230ec51c64b72bab", "trl at 0123abc"),
        ("git+https://github.com/huggingface/transformers.git@0dcb46e7", "transformers at 0dcb46e"),
        ("git+https://github.com/huggingface/trl@0123abc\ntrl==0.9.6", ""),
        ("git+https://github.com/huggingface/trl@main", ""),  # the newest of some day, as without a pin
        ("git+https://github.com/huggingface/trl@v0.9.6", ""),
        ("git+https://github.com/huggingface/trl@e95f9fb", ""),  # behind 0.14
    ],
)
def test_a_commit_is_no_release_and_said(tmp_path: Path, asked: str, said: str) -> None:
    (tmp_path / "requirements.txt").write_text(f"{asked}\n")
    (tmp_path / "train.py").write_text(SCRIPT)
    found = [each for each in port_file(tmp_path / "train.py").findings if "which is no release" in each.message]
    told = [each.message.replace("the commit ", "") for each in found]
    assert len(told) == bool(said) and all(said in text and "requirements.txt" in text for text in told)


@pytest.mark.parametrize(
    ("asked", "trl", "transformers"),
    [
        ("transformers>=4.41.0 trl>=0.9.6 huggingface_hub==0.23.4", "0.17.0", "4.46.3"),
        ("trl>=0.9.6 huggingface-hub==0.23.4", "0.17.0", "4.46.3"),
        ("trl huggingface_hub==0.23.4", "0.17.0", "4.46.3"),  # its name is huggingface-hub
        ("trl transformers tokenizers==0.19.1", "0.10.1", "4.44.2"),
        ("trl datasets==2.14.0", "0.11.4", "4.45"),
        ("trl transformers numpy==1.26.4", "1.16.0", "5.12.1"),
        ("trl transformers huggingface_hub>=0.23.4", "1.16.0", "5.12.1"),  # bounds nothing
    ],
)
def test_what_a_library_is_installed_beside_bounds_it(tmp_path: Path, asked: str, trl: str, transformers: str) -> None:
    (tmp_path / "requirements.txt").write_text(asked.replace(" ", "\n"))
    text = SCRIPT.replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2-0.5B")
    (tmp_path / "train.py").write_text(text)
    found = port_file(tmp_path / "train.py").recipe.versions
    assert (found["trl"].partition(" ")[0], found["transformers"].partition(" ")[0]) == (trl, transformers)


@pytest.mark.parametrize(
    ("file", "text", "trl", "transformers"),
    [
        ("environment.yml", "dependencies:\n  - pandas\n  - pip:\n    - datasets==2.14.0\n", "1.16.0", "5.12.1"),
        ("environment.yml", "dependencies:\n  - pip:\n    - peft\n    - datasets==2.14.0\n", "0.11.4", "4.45"),
    ],
)
def test_what_another_environment_pins_bounds_nothing(
    tmp_path: Path, file: str, text: str, trl: str, transformers: str
) -> None:
    """One that names nothing of what trains isn't the script's."""
    (tmp_path / file).write_text(text)
    (tmp_path / "train.py").write_text(SCRIPT.replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2-0.5B"))
    found = port_file(tmp_path / "train.py").recipe.versions
    assert (found["trl"].partition(" ")[0], found["transformers"].partition(" ")[0]) == (trl, transformers)


def test_a_script_without_trl_is_not_bounded_by_what_trl_needs(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("transformers\ndatasets==3.2.0\n")
    text = (
        SCRIPT.replace("SFTTrainer", "Trainer").replace("SFTConfig", "TrainingArguments").replace("trl", "transformers")
    )
    (tmp_path / "train.py").write_text(text)
    found = port_file(tmp_path / "train.py").recipe.versions
    assert (found["trl"], found["transformers"]) == ("1.16.0 (newest table)", "5.12.1 (newest table)")


OF_A_PARSER = """from datasets import load_dataset
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser

script, args, model = TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config()
trainer = SFTTrainer(model.model_name_or_path, args=args, train_dataset=load_dataset(script.dataset_name)["train"])
trainer.train()
"""


@pytest.mark.parametrize(("flag", "read"), [("--config sft.yaml", "1.16.0"), ("--max_seq_length 512", "0.19.1")])
def test_the_flag_of_the_parser_itself_dates_nothing(tmp_path: Path, flag: str, read: str) -> None:
    """ScriptArguments had a field `config` in 0.12 alone; TrlParser takes `--config` in all releases."""
    (tmp_path / "sft.yaml").write_text("output_dir: out\n")
    (tmp_path / "run.sh").write_text(f"accelerate launch train.py {flag}\n")
    (tmp_path / "train.py").write_text(OF_A_PARSER)
    assert port_file(tmp_path / "train.py").recipe.versions["trl"].startswith(read)


@pytest.mark.parametrize(
    ("loss", "read"), [("dapo", "0.22.0 (the first"), ("bnpo", "0.20.0 (requirements.txt: trl beside")]
)
def test_pins_that_let_in_nothing_the_script_can_run_on_are_not_its_own(tmp_path: Path, loss: str, read: str) -> None:
    """huggingface-hub 0.30 keeps TRL at 0.20; `dapo` came in 0.22."""
    (tmp_path / "requirements.txt").write_text("trl\ndatasets==3.5.0\nhuggingface-hub==0.30.2\n")
    text = SCRIPT.replace("SFT", "GRPO").replace('"out"', f'"out", loss_type="{loss}"')
    (tmp_path / "train.py").write_text(text.replace("args=", "reward_funcs=len, args="))
    assert port_file(tmp_path / "train.py").recipe.versions["trl"].startswith(read)

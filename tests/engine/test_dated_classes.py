"""Classes and keywords that only some releases have: they date a script, and are in the port what that release had."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from tests.notebooks import saved

from .porting import PLAIN, port
from .test_dating import SCRIPT

# Of a model that every release loads.
OF_ANY, PLAIN_OF_ANY = (text.replace("Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-135M") for text in (SCRIPT, PLAIN))


@pytest.mark.parametrize(
    ("keywords", "version"),
    [
        ("save_safetensors=True", "0.27.2"),  # inherited: transformers 5 has none
        ("save_safetensors=True, max_seq_length=9", "0.19.1"),
        ("max_length=9", "1.16.0"),
    ],
)
def test_keywords_that_a_class_inherits_date_a_script(tmp_path: Path, keywords: str, version: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace('SFTConfig("out")', f'SFTConfig("out", {keywords})'))
    assert port_file(script).recipe.versions["trl"].startswith(f"{version} ")


CHANGED = SCRIPT.replace('args=SFTConfig("out")', "args=args").replace(
    "trainer =", 'args = SFTConfig("out", KEYWORDS)\nargs.learning_rate = 1e-4\ntrainer ='
)


@pytest.mark.parametrize(
    ("keywords", "port", "status"),
    [
        ("max_seq_length=9", 'trl_arguments("0.19.1", "SFTConfig")', "ported"),
        ('train_sampling_strategy="random", save_safetensors=True', 'SFTConfig("out", train', "partial"),
    ],
)
def test_a_config_that_stays_takes_its_keywords_or_is_left_to_a_person(
    tmp_path: Path, keywords: str, port: str, status: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(CHANGED.replace("KEYWORDS", keywords))
    made = port_file(script)
    assert port in made.after and made.status == status
    errors = [finding.message for finding in made.recipe.findings if finding.severity == "error"]
    assert [message.split(":")[0] for message in errors] == ["SFTConfig.save_safetensors"] * (status == "partial")


def test_a_class_by_its_module_s_name_is_the_release_s_own(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = CHANGED.replace("KEYWORDS", "max_seq_length=9").replace("import SFTConfig, ", "import ")
    script.write_text("import trl\n" + text.replace("= SFTConfig", "= trl.SFTConfig"))
    assert 'args = trl_arguments("0.19.1", "SFTConfig")("out", max_seq_length=9)' in port_file(script).after


@pytest.mark.parametrize(
    ("pins", "keywords", "port"),
    [
        ("trl==0.19.1\ntransformers==4.55.4", "", '("0.19.1", "SFTConfig", transformers="4.55.4")'),
        ("trl==0.19.1\ntransformers==4.53.1", "", '("0.19.1", "SFTConfig")'),  # that of its day
        ("trl==1.16.0\ntransformers==4.57.6", "warmup_ratio=0.1", '"SFTConfig", transformers="4.57.6")'),
        ("trl==1.16.0\ntransformers==5.12.1", "", "import SFTConfig"),
    ],
)
def test_a_config_that_stays_is_that_of_the_transformers_beside_it(
    tmp_path: Path, pins: str, keywords: str, port: str
) -> None:
    (tmp_path / "requirements.txt").write_text(pins)
    script = tmp_path / "train.py"
    script.write_text(CHANGED.replace("KEYWORDS", keywords))
    made = port_file(script)
    assert port in made.after and made.status == "ported"


def test_plain_arguments_are_those_of_the_pinned_transformers(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.41.2\ntrl==0.8.6\npeft==0.10.0")
    script = tmp_path / "train.py"
    text = CHANGED.replace("KEYWORDS", 'evaluation_strategy="no"').replace("import SFTConfig, ", "import ")
    text = text.replace("= SFTConfig", "= TrainingArguments")
    script.write_text("from transformers import TrainingArguments\nfrom peft import LoraConfig\n" + text)
    after = port_file(script).after
    assert 'TrainingArguments = trl_arguments("0.8.6", "TrainingArguments", transformers="4.41.2")' in after, after


PREFERENCES = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import {trainer}Config, {trainer}Trainer

{pin}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = {trainer}Trainer(
    model,
    args={trainer}Config(output_dir="out"),
    train_dataset=load_dataset("x", split="train"),
    tokenizer=AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B"),
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("trainer", "pin", "trl"),
    [
        ("KTO", "", "0.13.0"),
        ("CPO", "", "0.13.0"),
        ("ORPO", "", "0.14.0"),
        # DPOConfig came after transformers 4.40: TRL 0.15, which still took tokenizer=, can't have run beside it.
        ("DPO", "# pip install transformers==4.40.1", "0.9.2"),
    ],
)
def test_a_preference_trainers_tokenizer_tells_its_release(trainer: str, pin: str, trl: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PREFERENCES.format(trainer=trainer, pin=pin))
    port = port_file(script)
    assert port.recipe.versions["trl"].startswith(f"{trl} ")


def test_what_peft_lost_dates_a_script_that_nothing_else_dates(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from datasets import load_from_disk\n"
        "from peft import LoraConfig, get_peft_model, prepare_model_for_int8_training\n"
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", load_in_8bit=True)\n'
        'model = get_peft_model(prepare_model_for_int8_training(model), LoraConfig(target_modules=["q_proj"]))\n'
        'Trainer(model, args=TrainingArguments("out"), train_dataset=load_from_disk("rows")).train()\n'
    )
    port = port_file(script)
    assert port.recipe.versions["transformers"].startswith("4.38.2 (of the day of peft 0.9.0, the newest release with")
    assert 'transformers="4.38.2"' in port.after


@pytest.mark.parametrize(
    ("trl", "transformers", "version"),
    [
        ("trl==0.18.1", "transformers>=4.32.0,<4.38.0", "4.52"),  # which 0.18.1 can't be installed beside
        ("trl==0.18.1", "transformers==4.37.2", "4.37.2"),
        ("trl==0.9.4", "transformers<4.38.0", "4.37.2"),
    ],
)
def test_a_range_that_the_pinned_trl_cannot_have_dates_nothing(
    trl: str, transformers: str, version: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(OF_ANY)
    (tmp_path / "environment.yml").write_text(f"dependencies:\n  - pip:\n    - {trl}\n")
    (tmp_path / "requirements.txt").write_text(f"{transformers}\n")
    found = port_file(tmp_path / "train.py").recipe.versions
    assert found["trl"].startswith(trl.removeprefix("trl=="))
    assert found["transformers"].startswith(version)


@pytest.mark.parametrize(
    ("pins", "version"),
    [
        ("transformers>=4.36,<4.51\naccelerate>=0.20,<0.26\n", "4.44"),  # 4.45 asks for accelerate 0.26
        ("transformers>=4.36,<4.51\naccelerate>=0.26\n", "4.50"),
        ("transformers==4.50.3\naccelerate<0.26\n", "4.50.3"),  # a single release is what the project says
        ("transformers>=4.42,<5\nhuggingface_hub>=0.23,<0.24\n", "4.46.3 "),  # 4.47 asks for 0.24
        ("huggingface-hub<0.24\ntransformers>=4.42\n", "4.46.3 "),  # nor does pip take a newer one here
        ("transformers>=4.42,<5\nhuggingface_hub>=0.23\n", "4.57"),
        ("transformers>=4.40,<4.50\ntokenizers==0.19.1\n", "4.44.2 "),
        (
            "transformers>=4.40,<5\naccelerate<1.1\nhuggingface_hub<0.24\n",
            "4.46.3 (requirements.txt: transformers>=4.40,<5 beside huggingface_hub<0.24)",
        ),
        ("transformers>=4.50,<4.52\ntokenizers==0.19.1\n", "4.51.3 "),  # which none of the range takes
    ],
)
def test_a_range_is_read_as_the_newest_release_that_the_other_pins_allow(
    pins: str, version: str, tmp_path: Path
) -> None:
    """As pip takes it; the Trainer ends without an accelerate."""
    (tmp_path / "train.py").write_text(OF_ANY)
    (tmp_path / "requirements.txt").write_text(pins)
    assert port_file(tmp_path / "train.py").recipe.versions["transformers"].startswith(version)


def read_as(text: str, tmp_path: Path, requirements: str = "") -> str:
    """The release of TRL that a script is read as, with these requirements beside it."""
    (tmp_path / "requirements.txt").write_text(requirements)
    (tmp_path / ".git").mkdir(exist_ok=True)
    (tmp_path / "train.py").write_text(text)
    return port_file(tmp_path / "train.py").recipe.versions["trl"].partition(" ")[0]


def test_what_runs_under_a_main_guard_dates_a_script(tmp_path: Path) -> None:
    """Only a test of the release, a signature or an attribute guards what is written for it."""
    text = PLAIN.replace("train_dataset=rows)", "train_dataset=rows, tokenizer=None)")
    head, _, tail = text.partition("trainer = ")
    body = "".join(f"    {line}\n" for line in f"trainer = {tail}".splitlines())
    newest = read_as(PLAIN, tmp_path)
    assert read_as(f'{head}if __name__ == "__main__":\n{body}', tmp_path) == read_as(text, tmp_path) != newest
    assert read_as(f'import trl\n{head}if trl.__version__ < "0.16":\n{body}', tmp_path) == newest


def test_a_field_that_is_read_dates_a_script(tmp_path: Path) -> None:
    """`model_args.trust_remote_code` of a parameter that is annotated as TRL's ModelConfig, which lost it in 1.7."""
    text = "from trl import ModelConfig\n" + PLAIN + "def loads(model_args: ModelConfig):\n    print({})\n"
    assert read_as(text.format("model_args.trust_remote_code"), tmp_path).startswith("1.6")
    assert read_as(text.format("model_args.model_revision"), tmp_path) == read_as(PLAIN, tmp_path)


@pytest.mark.parametrize(
    ("pin", "release"), [("", "0.24.0"), ("unsloth==2025.2.15", "0.15.2"), ("unsloth\ntrl==0.19.1", "0.19.1")]
)
def test_unsloth_has_a_newest_trl_of_its_own(pin: str, release: str, tmp_path: Path) -> None:
    text = PLAIN.replace("from trl", "from unsloth import FastLanguageModel\nfrom trl", 1)
    assert read_as(text, tmp_path, pin) == release


@pytest.mark.parametrize(
    ("pins", "said"),
    [
        ("unsloth==2025.5.6\ntrl==0.15.2", "4.51.3 (the newest release beside unsloth 2025.5.6)"),  # TRL's day: 4.49
        ("unsloth==2025.9.7", "4.55.4 (the newest release beside unsloth 2025.9.7)"),
        ("unsloth==2026.5.1", "5.5.0 (the newest release beside unsloth 2026.5.1)"),
        ("unsloth==2025.5.6\ntransformers==4.52.4", "4.52.4 (requirements.txt"),
        ("unsloth==2025.5.6\ntransformers>=4.45,<5", "4.51.3 (requirements.txt: transformers>=4.45,<5, the newest"),
        ("unsloth\ntrl==0.19.1", "4.53 (of the day of TRL 0.19.1)"),
    ],
)
def test_unsloth_has_a_transformers_of_its_own(pins: str, said: str, tmp_path: Path) -> None:
    text = PLAIN.replace("from trl", "from unsloth import FastLanguageModel\nfrom trl", 1)
    (tmp_path / "requirements.txt").write_text(pins)
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(text)
    assert port_file(tmp_path / "train.py").recipe.versions["transformers"].startswith(said)


def test_what_unsloth_is_installed_with_is_not_behind_what_the_script_shows(tmp_path: Path) -> None:
    """Under transformers 5.5, the newest beside that Unsloth, the last line ends the run."""
    text = PLAIN.replace("from trl", "from unsloth import FastLanguageModel\nfrom trl", 1)
    (tmp_path / "requirements.txt").write_text("unsloth==2026.5.1\n")
    (tmp_path / "train.py").write_text(f"{text}tokenizer.apply_chat_template([]) + [2]\n")
    assert port_file(tmp_path / "train.py").recipe.versions["transformers"] == "4.57 (of the day of TRL 0.24.0)"


def test_another_library_s_day_is_not_before_what_is_asked_for(tmp_path: Path) -> None:
    """peft 0.13.0 is of the day of transformers 4.45; a script that asks for 4.51 or newer isn't."""
    text = PLAIN_OF_ANY.replace("trainer = ", "from peft import LoraConfig\ntrainer = ")
    early = read_as(text, tmp_path, "peft==0.13.0\n")
    assert early.startswith("0.11") and not read_as(text, tmp_path, "peft==0.13.0\ntransformers>=4.51.0\n").startswith(
        "0."
    )


def test_a_pin_before_all_that_is_known_is_said(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").write_text("trl==0.4.7\ntransformers==4.36.2\n")
    text = PLAIN_OF_ANY.replace("SFTConfig, ", "").replace(", args=SFTConfig('out')", "")
    (tmp_path / "train.py").write_text(text)
    found = port_file(tmp_path / "train.py").recipe
    (said,) = (finding for finding in found.findings if "trl==0.4.7" in finding.message)
    assert said.severity == "warning" and said.message.endswith(f"read as TRL {found.versions['trl'].split()[0]}.")


def test_unsloth_takes_every_release_s_trainer_and_not_its_configs() -> None:
    script = PLAIN.replace("train_dataset=rows", "train_dataset=rows, tokenizer=None").replace(
        "SFTConfig('out'", "SFTConfig(max_seq_length=9"
    )
    assert port(f"import unsloth\n{script}").recipe.versions["trl"].startswith("0.24.0 ")
    first = "from trl import SFTConfig, SFTTrainer\n"
    config = PLAIN.replace("SFTConfig('out'", "SFTConfig(max_seq_length=9").replace(first, f"{first}import unsloth\n")
    assert first in config and port(config).recipe.versions["trl"].startswith("0.19.1 ")
    script = (
        "import unsloth\nfrom datasets import load_dataset\nfrom trl import GRPOConfig, GRPOTrainer\n"
        "trainer = GRPOTrainer('Qwen/Qwen3-0.6B', reward_funcs=[len], args=GRPOConfig('out', max_prompt_length=9),\n"
        "    train_dataset=load_dataset('x', split='train'))\ntrainer.train()\n"
    )
    assert port(script).recipe.versions["trl"].startswith("0.24.0 ")
    older = PLAIN.replace("SFTConfig('out'", "SFTConfig('out', dataset_batch_size=9")
    assert port(f"import unsloth\n{older}").recipe.versions["trl"].startswith("0.17.0 ")


def test_arguments_by_their_module_s_name_are_the_release_s_own(tmp_path: Path) -> None:
    """`transformers.TrainingArguments(evaluation_strategy=...)` in the trainer's call, decided when the script runs."""
    text = (
        "import sys\nimport transformers\nfrom datasets import load_dataset\n"
        "from peft import prepare_model_for_int8_training\n"
        "model = transformers.AutoModelForCausalLM.from_pretrained('Qwen/Qwen2-0.5B')\n"
        "trainer = transformers.Trainer(model=model, train_dataset=load_dataset('x', split='train'),\n"
        "    args=transformers.TrainingArguments('out', evaluation_strategy=sys.argv[1]))\ntrainer.train()\n"
    )
    after = port(text).after
    assert re.search(r'trl_arguments\("0[.0-9]+", "TrainingArguments", transformers="4[.0-9]+"\)\(', after), after
    assert "import TrainingArguments" not in after


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ('assert (\n    "LlamaTokenizer" in transformers._import_structure["models.llama"]\n), "reinstall"', False),
        ('assert transformers.__version__ >= "4.36", "too old"', False),
        ('assert importlib.metadata.version("trl") == "0.8.6"', False),
        ('assert len(transformers.__name__) > 3, "no"', True),
        ('assert datasets.__version__ >= "2"', True),
    ],
)
def test_assertions_of_the_gpus_releases_go(line: str, stays: bool) -> None:
    found = port(f"import datasets, importlib.metadata, transformers\n{line}\n" + PLAIN)
    assert found.status == "ported" and ("assert" in found.after) is stays, found.after


def test_a_block_of_assertions_is_not_left_empty() -> None:
    text = "import sys, transformers\nif sys.argv[1:]:\n    assert transformers.__version__ >= '4.36'\n" + PLAIN
    assert "assert" not in port(text).after


def test_the_day_of_another_pin_is_within_what_unsloth_takes(tmp_path: Path) -> None:
    """transformers 5.1 is of the day of TRL 0.28, which no Unsloth is installed with."""
    text = PLAIN.replace("from trl", "from unsloth import FastLanguageModel\nfrom trl", 1)
    text = text.replace("train_dataset=rows)", "train_dataset=rows, processing_class=None)")
    assert read_as(text, tmp_path, "transformers==5.1.0\n") == "0.24.0"


@pytest.mark.parametrize(
    ("command", "version"),
    [
        ("pip install -r setup/requirements.txt", "0.14.0"),
        ("uv pip install --requirement=setup/requirements.txt", "0.14.0"),
        ("don't pip install -r setup/requirements.txt", "1.16.0"),
        ("pip install -r ../../setup/requirements.txt", "1.16.0"),
    ],
)
def test_requirements_that_a_command_names(tmp_path: Path, command: str, version: str) -> None:
    project = tmp_path / "project"
    for folder in (project / "setup", project / "rung", tmp_path / "setup", project / ".git"):
        folder.mkdir(parents=True)
    (project / "README.md").write_text(f"Once:\n\n    {command}\n")
    (project / "setup" / "requirements.txt").write_text("trl==0.14.0\n")
    (tmp_path / "setup" / "requirements.txt").write_text("trl==0.9.6\n")  # not the project's
    script = project / "rung" / "train.py"
    script.write_text(SCRIPT)
    assert port_file(script).recipe.versions["trl"].startswith(version)


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"dependence.txt": "trl==0.14.0\n"}, "0.14.0"),
        ({"docker/requirements-train.txt": "trl==0.14.0\n", "docker/requirements-serve.txt": "trl==0.9.6\n"}, "0.14.0"),
        ({"docker/requirements.txt": "trl==0.14.0\n", "requirements.txt": "trl==0.9.6\n"}, "0.9.6"),
    ],
)
def test_requirements_of_other_names_and_of_the_image(tmp_path: Path, files: dict[str, str], version: str) -> None:
    for folder in (tmp_path / "docker", tmp_path / "post_training", tmp_path / ".git"):
        folder.mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    script = tmp_path / "post_training" / "sft.py"
    script.write_text(SCRIPT)
    assert port_file(script).recipe.versions["trl"].startswith(version)


def test_a_pin_of_before_all_that_is_known_is_read_as_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.30.2\n")
    script = tmp_path / "train.py"
    script.write_text(
        "from datasets import load_dataset\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = AutoModelForCausalLM.from_pretrained("HuggingFaceTB/SmolLM2-135M")\n'
        'trainer = Trainer(model, TrainingArguments("out"), train_dataset=load_dataset("x", split="train"))\n'
        "trainer.train()\n"
    )
    found = port_file(script)
    assert found.recipe.versions["transformers"].startswith("4.31.0 ")
    assert any("transformers==4.30.2 is older than all" in finding.message for finding in found.recipe.findings)
    script.write_text(script.read_text().replace('"out"', '"out", eval_strategy="no"'))  # which is of 4.41
    assert not port_file(script).recipe.versions["transformers"].startswith("4.31.0 ")


@pytest.mark.parametrize(
    ("module", "imports", "version"),
    [
        (
            'image = Image.debian_slim().pip_install(\n  "torch",  # (CUDA)\n  "trl==0.11.4",\n)\n',
            "modal",
            "0.11.4",
        ),
        ('image = Image.debian_slim().pip_install("torch")\nold = ["trl==0.11.4"]\n', "modal", "1.16.0"),
        ('image = Image.debian_slim().pip_install("trl==0.11.4")\n', "os", "1.16.0"),
    ],
)
def test_what_a_modal_image_installs_dates_it(tmp_path: Path, module: str, imports: str, version: str) -> None:
    (tmp_path / "common.py").write_text(f"from modal import Image\n{module}")
    script = tmp_path / "train.py"
    script.write_text(f"import {imports}\nfrom common import image\n{SCRIPT}")
    assert port_file(script).recipe.versions["trl"].split(" ")[0] == version


def test_what_a_trainer_is_given_dates_a_notebook_that_installs(tmp_path: Path) -> None:
    """`!pip install` is no Python: the evidence of the cells below it was lost."""
    lines = (
        "from datasets import load_dataset\n",
        "from transformers import TrainingArguments\n",
        "from trl import DPOTrainer\n",
        "args = TrainingArguments('out')\n",
        "trainer = DPOTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=load_dataset('x', split='train'))\n",
        "trainer.train()\n",
    )
    path = saved(tmp_path / "train.ipynb", "!pip install -q trl\n", "".join(lines))
    said = port_file(path).recipe.versions["trl"]
    assert said.startswith(("0.8.6", "0.9.1")), said

"""Arguments that a script needs and nobody gave: from the project's own command lines, else made up, and kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from porter.validate.stand_ins.command_line.arguments import recorded_arguments
from porter.validate.stand_ins.command_line.command_lines import configs_of
from porter.validate.stand_ins.command_line.variables import unmade_secrets
from tests.validate import forked

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import json, os, runpy, sys
from porter.validate.stand_ins.command_line.arguments import provide_arguments
from porter.validate.stand_ins.command_line.variables import provide_environment
script, work, *words = sys.argv[1:]
notes = []
provide_environment(script, notes.append)
as_shown = "AS_SHOWN" in os.environ
words = provide_arguments(script, work, notes.append, words, as_shown=as_shown)
sys.argv = [script, *words]
try:
    runpy.run_path(script, run_name="__main__")
finally:
    print("NOTES", json.dumps(list(dict.fromkeys(notes))))
"""
ARGPARSE = "import argparse\nparser = argparse.ArgumentParser()\n"
PRINT = "print(sorted(vars(parser.parse_args()).items()))\n"


@dataclass(frozen=True)
class Ran:
    """A script's output without the notes, the notes, and the command line kept for the port."""

    out: str
    notes: list[str]
    words: tuple[str, ...]
    code: int


def run(folder: Path, text: str, *words: str) -> Ran:
    script, work = folder / "train.py", folder / "work"
    script.write_text(text)
    work.mkdir(exist_ok=True)
    (folder / "requirements.txt").touch()  # what makes it a project's folder
    done = forked.run(RUN, script, work, *words, cwd=folder)
    out, _, notes = done.stdout.partition("NOTES ")
    assert notes, done.stderr
    return Ran(out.strip(), json.loads(notes), recorded_arguments(work), done.returncode)


def test_a_script_that_needs_nothing_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("python train.py --lr 3e-4\n")
    ran = run(tmp_path, ARGPARSE + 'parser.add_argument("--lr", type=float, default=1e-5)\n' + PRINT)

    assert (ran.out, ran.notes, ran.words) == ("[('lr', 1e-05)]", [], ())


def test_required_arguments_by_name_type_and_choices(tmp_path: Path) -> None:
    text = ARGPARSE + (
        'parser.add_argument("data", help="a .csv file")\n'
        'parser.add_argument("--model_name_or_path", required=True)\n'
        'parser.add_argument("--learning-rate", type=float, required=True)\n'
        'parser.add_argument("--rank", "-r", type=int, required=True)\n'
        'parser.add_argument("--method", choices=["dpo", "sft"], required=True)\n'
        'parser.add_argument("--targets", nargs="+", required=True)\n'
        'parser.add_argument("--output_dir", required=True)\n'
    )
    ran = run(tmp_path, text + PRINT, "--rank", "4")
    taken = dict(eval(ran.out))

    assert taken["model_name_or_path"] == "tpu-port/stand-in"
    assert (taken["data"], taken["learning_rate"], taken["rank"]) == ("tpu_port_data.csv", 1e-4, 4)
    assert (taken["method"], taken["output_dir"]) == ("dpo", "tpu_port_output")
    assert ran.words[ran.words.index("--rank") + 1] == "4"
    assert "--model_name_or_path tpu-port/stand-in" in ran.notes[0]
    assert run(tmp_path, text + PRINT, *ran.words).out == ran.out


def test_the_projects_own_command_line_comes_first(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "# Use\n```bash\nexport MODEL=Qwen/Qwen3-0.6B\npython other.py --model a\n"
        "CUDA_VISIBLE_DEVICES=0 accelerate launch train.py \\\n    --model $MODEL --epochs 3 \\\n"
        "    --unknown 1 --output $NOWHERE --deepspeed ds.json\n```\n"
    )
    text = ARGPARSE + (
        'parser.add_argument("--model", required=True)\nparser.add_argument("--epochs", type=int, default=1)\n'
        'parser.add_argument("--output", default="out")\nparser.add_argument("--deepspeed")\n'
    )
    ran = run(tmp_path, text + PRINT)

    assert dict(eval(ran.out)) == {"model": "Qwen/Qwen3-0.6B", "epochs": 3, "output": "out", "deepspeed": None}
    assert "that of README.md: --model Qwen/Qwen3-0.6B --epochs 3" in ran.notes[0]
    assert dict(eval(run(tmp_path, text + PRINT, "--epochs", "7").out))["epochs"] == 7


def test_a_script_that_trained_nothing_runs_with_a_command_line_that_its_project_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("accelerate launch -m train --dry-run false --port 9\n")
    text = ARGPARSE + 'parser.add_argument("--dry-run", default="true")\n' + PRINT
    assert run(tmp_path, text).out == "[('dry_run', 'true')]"
    monkeypatch.setenv("AS_SHOWN", "1")
    ran = run(tmp_path, text)

    assert ran.out == "[('dry_run', 'false')]" and ran.words == ("--dry-run", "false")
    assert "that of README.md: --dry-run false" in ran.notes[0]
    assert run(tmp_path, text, "--dry-run", "no").out == "[('dry_run', 'no')]"


def test_a_setting_that_is_read_as_json_is_a_dictionary_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text(
        "other = {'model_name': 'a'}\nconfig = {'model_name': 'b', 'lora': {'r': 8}, 'out': f'{bucket}/x', 'lr': 1}\n"
    )
    text = ARGPARSE + (
        'import json\nparser.add_argument("--config_json", required=True, help="the whole configuration")\n'
        "config = json.loads(parser.parse_args().config_json)\n"
        'print(config["model_name"], config["lora"], "out" in config)\n'
    )
    ran = run(tmp_path, text)

    assert ran.out == "b {'r': 8} False"
    assert "config_json, which the script reads as JSON, is a dictionary of start.py" in ran.notes
    (tmp_path / "start.py").unlink()
    assert run(tmp_path, text.replace("config[", "config.get(").replace('"],', '"),')).out == "None None False"


def test_a_command_and_what_it_needs(tmp_path: Path) -> None:
    text = ARGPARSE + (
        'commands = parser.add_subparsers(dest="command", required=True)\n'
        'commands.add_parser("show")\ntrain = commands.add_parser("train")\n'
        'train.add_argument("--model", required=True)\nparser.add_argument("--lr", required=True, type=float)\n'
    )
    ran = run(tmp_path, text + PRINT)

    assert ran.words == ("--lr", "0.0001", "train", "--model", "tpu-port/stand-in")
    assert "('command', 'train'), ('lr', 0.0001), ('model', 'tpu-port/stand-in')" in ran.out


def test_one_of_options_that_exclude_each_other(tmp_path: Path) -> None:
    text = ARGPARSE + (
        "group = parser.add_mutually_exclusive_group(required=True)\n"
        'group.add_argument("--fast", action="store_true")\n'
        'group.add_argument("--share", type=float)\nparser.add_argument("--model", required=True)\n'
        "args = parser.parse_args()\nif not args.fast and args.share is None:\n    raise SystemExit(1)\n"
        "if args.share is None and not args.fast:\n    parser.error('a share, please')\nprint(args.fast, args.share)\n"
    )
    ran = run(tmp_path, text)

    assert (ran.out, ran.code) == ("True None", 0)


def test_what_the_script_itself_insists_on(tmp_path: Path) -> None:
    text = ARGPARSE + (
        'parser.add_argument("--model", default="")\nparser.add_argument("--other", default="")\n'
        'args = parser.parse_args()\nif not args.model:\n    raise SystemExit("a model, please")\n'
        "print(args.model, repr(args.other))\n"
    )

    assert run(tmp_path, text).out == "tpu-port/stand-in ''"


def test_a_configuration_file_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "other.yaml").write_text("colour: red\nshape: round\n")
    (tmp_path / "configs" / "small.yaml").write_text("lr: 1\nepochs: 2\n")
    text = ARGPARSE + 'parser.add_argument("--config", required=True)\nepochs, lr = 1, 2\n' + PRINT

    assert run(tmp_path, text).out.endswith("configs/small.yaml')]")


def test_a_script_that_reads_json_is_given_no_yaml(tmp_path: Path) -> None:
    for name in ("config.yaml", "configs/wandb/run-1/config.json", "configs/wide.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"lr": 1}')
    text = ARGPARSE + 'import json\nparser.add_argument("--config_file", required=True)\n'
    text += "print(parser.parse_args().config_file)\nif False: json.load(open('x'))\n"

    assert run(tmp_path, text).out == str(tmp_path / "configs/wide.json")


def test_data_that_nobody_names_and_nothing_asks_about(tmp_path: Path) -> None:
    read = "load_dataset = lambda *words, **more: print(*words, more)\nargs = parser.parse_args()\n{}\n"
    text = ARGPARSE + 'parser.add_argument("--data_file")\n'
    unasked = text + read.format('load_dataset("csv", data_files=args.data_file)')

    assert run(tmp_path, unasked).words[0] == "--data_file"
    assert run(tmp_path, unasked, "--data_file", "mine.csv").out == "csv {'data_files': 'mine.csv'}"
    assert run(tmp_path, text + read.format("if args.data_file: load_dataset(args.data_file)")).out == ""


def test_a_file_that_doesnt_fit_leaves_no_settings_behind(tmp_path: Path) -> None:
    """As TrlParser reads one: its settings become defaults before it complains of those that it doesn't know."""
    (tmp_path / "other.yaml").write_text("colour: red\nunknown: 1\n")
    text = ARGPARSE.replace("parser = argparse.ArgumentParser()\n", "import sys, yaml\n") + (
        "class Parser(argparse.ArgumentParser):\n"
        "    def parse_args_and_config(self):\n"
        "        words = sys.argv[1:]\n"
        "        if '--config' in words:\n"
        "            content = yaml.safe_load(open(words[words.index('--config') + 1]))\n"
        "            words = words[: words.index('--config')]\n"
        "            for action in self._actions:\n"
        "                action.default = content.pop(action.dest, action.default)\n"
        "            if content:\n"
        "                raise ValueError(content)\n"
        "        return self.parse_args(words)\n"
        "parser = Parser()\n"
        "parser.add_argument('--colour', default='blue')\n"
        "parser.add_argument('--rows', required=True, type=int)\n"
        "print(sorted(vars(parser.parse_args_and_config()).items()))\n"
    )

    assert run(tmp_path, text).out == "[('colour', 'blue'), ('rows', 64)]"


def test_a_folder_of_configurations_has_any_name(tmp_path: Path) -> None:
    (tmp_path / "training_configs").mkdir()
    (tmp_path / "training_configs" / "dpo_v1.yaml").write_text("beta: 0.1\n")
    (tmp_path / "dpo.py").write_text("print()")

    assert [path.name for path, _ in configs_of(tmp_path / "dpo.py", tmp_path)] == ["dpo_v1.yaml"]


def test_what_goes_back_into_the_environment_is_made_up(tmp_path: Path) -> None:
    """`os.environ[...] = None` is a TypeError: who sets it from a variable has that set."""
    ran = run(
        tmp_path,
        'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = os.getenv("GPU_OF_NOBODY")\n'
        'print(os.environ["CUDA_VISIBLE_DEVICES"], os.getenv("GPU_OF_NOBODY"))\n',
    )
    assert ran.out.split() == ["tpu-port", "None"] and "GPU_OF_NOBODY" in ran.notes[0]


def test_words_by_number_and_variables_of_the_environment(tmp_path: Path) -> None:
    text = (
        "import os, sys\nmodel = sys.argv[1]\nsteps = int(sys.argv[2])\n"
        'print(model, steps, os.environ["HF_TOKEN_OF_NOBODY"], os.environ.get("ANOTHER_OF_NOBODY"))\n'
        'try:\n    os.environ["A_THIRD_OF_NOBODY"]\nexcept KeyError:\n    print("not set")\n'
        'print(os.environ["NODE_RANK"], int(os.environ["SAMPLES_OF_NOBODY"]), "NODE_RANK" in os.environ)\n'
    )
    ran = run(tmp_path, text)

    assert ran.out == "tpu-port/stand-in 10 tpu-port None\nnot set\n0 64 False"
    assert ran.words == ("tpu-port/stand-in", "10")
    assert run(tmp_path, text, "mine").out.startswith("mine 10")


def test_what_a_dotenv_file_lacks_is_made_up(tmp_path: Path) -> None:
    (tmp_path / ".env.base").write_text("KNOWN=yes\n")
    text = (
        'from dotenv import dotenv_values\nvalues = dotenv_values(".env.base")\n'
        'print(values["KNOWN"], values["HF_TOKEN_OF_NOBODY"], values.get("HF_TOKEN_OF_NOBODY"))\n'
        'print(dotenv_values(".env")["WANDB_KEY_OF_NOBODY"])\n'
    )
    assert run(tmp_path, text).out == "yes tpu-port None\ntpu-port"


@pytest.mark.parametrize("library", ["click", "typer"])
def test_click_and_typer(tmp_path: Path, library: str) -> None:
    if library == "click":
        text = (
            "import click\n@click.group()\ndef main(): pass\n@main.command()\ndef show(): pass\n"
            '@main.command()\n@click.argument("data")\n@click.option("--model", required=True)\n'
            '@click.option("--lr", type=float, prompt=True)\ndef train(data, model, lr):\n'
            "    print(data, model, lr)\nmain()\n"
        )
    else:
        text = (
            "import typer\napp = typer.Typer()\n@app.command()\ndef show(): pass\n@app.command()\n"
            "def train(data: str, model: str = typer.Option(...), lr: float = typer.Option(..., prompt=True)):\n"
            "    print(data, model, lr)\napp()\n"
        )
    ran = run(tmp_path, text)

    assert ran.out == "tpu_port_data.jsonl tpu-port/stand-in 0.0001"
    assert ran.words[0] == "train"
    assert {"--model", "tpu-port/stand-in", "--lr", "0.0001", "tpu_port_data.jsonl"} < {*ran.words}


def test_absl_flags_and_omegaconf(tmp_path: Path) -> None:
    text = (
        "from absl import app, flags\nflags.DEFINE_string('model', None, 'which')\n"
        "flags.DEFINE_integer('rank', None, '')\n"
        "flags.mark_flags_as_required(['model', 'rank'])\n"
        "app.run(lambda argv: print(flags.FLAGS.model, flags.FLAGS.rank))\n"
    )
    ran = run(tmp_path, text)
    assert (ran.out, ran.words) == ("tpu-port/stand-in 8", ("--model=tpu-port/stand-in", "--rank=8"))

    text = (
        "from omegaconf import OmegaConf\nbase = OmegaConf.create({'model': {'name': '???'}, 'lr': 1})\n"
        "config = OmegaConf.merge(base, OmegaConf.from_cli())\nprint(config.model.name, config['lr'])\n"
    )
    ran = run(tmp_path, text)
    assert (ran.out, ran.words[-1]) == ("tpu-port/stand-in 1", "model.name=tpu-port/stand-in")


def test_simple_parsing(tmp_path: Path) -> None:
    text = (
        "from dataclasses import dataclass\nfrom simple_parsing import ArgumentParser\n@dataclass\nclass Config:\n"
        "    model: str\n    lr: float = 0.1\nparser = ArgumentParser()\nparser.add_arguments(Config, dest='config')\n"
        "print(parser.parse_args().config)\n"
    )

    assert run(tmp_path, text).out == "Config(model='tpu-port/stand-in', lr=0.1)"


def test_a_default_that_tunix_lacks_gives_way_to_the_projects_command(tmp_path: Path) -> None:
    text = (
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser\n"
        '@dataclass\nclass Words:\n    model_name: str = "facebook/opt-350m"\n    rank: int = 8\n'
        "print(HfArgumentParser(Words).parse_args_into_dataclasses()[0])\n"
    )
    assert "opt-350m" in run(tmp_path, text).out
    (tmp_path / "README.md").write_text("!python train.py --model_name meta-llama/Llama-2-7b-hf\n")

    assert run(tmp_path, text).out == "Words(model_name='meta-llama/Llama-2-7b-hf', rank=8)"
    assert "opt-125m" in run(tmp_path, text, "--model_name", "facebook/opt-125m").out


def test_dataclasses_that_require_something_and_no_words(tmp_path: Path) -> None:
    text = (
        "from dataclasses import dataclass\nfrom transformers import HfArgumentParser\n"
        "@dataclass\nclass Words:\n    model_name: str\n"
        "print(HfArgumentParser(Words).parse_args_into_dataclasses()[0].model_name)\n"
    )

    assert run(tmp_path, text).out == "tpu-port/stand-in"


def test_a_variable_without_which_the_script_stops(tmp_path: Path) -> None:
    text = (
        'import os\ntoken = os.environ.get("HF_TOKEN_OF_NOBODY")\nif not token:\n    raise RuntimeError("no token")\n'
        'other = os.getenv("OTHER_OF_NOBODY")\nprint(token, other, os.environ.get("MORE_OF_NOBODY", "here"))\n'
    )

    assert run(tmp_path, text).out == "tpu-port None here"


def test_a_token_whose_line_was_left_out_is_made_up(tmp_path: Path) -> None:
    text = (
        "from os import sep as own_token\ndef f(api_key):\n    return api_key\ndef get_token():\n    return own_token\n"
        "print(f(hf_token), get_token() is not None)\n"
    )
    ran = run(tmp_path, text)

    assert ran.out == "tpu-port True"
    assert ran.notes == ["hf_token, which the script reads and nowhere makes, was made up: tpu-port"]
    (tmp_path / "other.py").write_text(f"from elsewhere import *\n{text}")  # which may make it
    assert unmade_secrets(tmp_path / "other.py") == set()


def test_a_script_that_streams_is_told_how_long_it_trains(tmp_path: Path) -> None:
    text = ARGPARSE + 'parser.add_argument("--max_steps", type=int, default=-1)\n' + PRINT
    assert run(tmp_path, text).words == ()
    streamed = text + "def rows():\n    return load_dataset('d', streaming=True)\n"
    assert "max_steps" in streamed  # a script that says it itself is left alone
    assert run(tmp_path, streamed).words == ()
    flags = "from transformers import HfArgumentParser, TrainingArguments\n"
    other = flags + "HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nload_dataset = dict\n"
    ran = run(tmp_path, other + "load_dataset(name='d', streaming=True)\n", "--output_dir", "out", "--use_cpu")
    assert ran.words[-2:] == ("--max_steps", "100"), ran.notes


TRAINS_BEHIND_FLAGS = """\
def train(steps):
    trainer.train()

def main():
    args = parser.parse_args()
    if args.train and args.steps:
        train(args.steps)
    print(args.train, args.steps, args.quiet, "--really" in sys.argv)

if "--really" in sys.argv:
    main()
"""


def test_flags_without_which_nothing_trains_are_given(tmp_path: Path) -> None:
    text = "import sys\nclass trainer:\n    train = staticmethod(lambda: print('trained'))\n" + ARGPARSE
    for more in ('"--really", action="store_true"', '"--quiet", action="store_true"', '"--train", action="store_true"'):
        text += f"parser.add_argument({more})\n"
    text += 'parser.add_argument("--steps", type=int)\n'
    ran = run(tmp_path, text + TRAINS_BEHIND_FLAGS)

    assert ran.code == 0, ran
    assert ran.out == "trained\nTrue 10 False True"
    assert ran.words == ("--really", "--train", "--steps", "10")
    assert "--really was given, without which nothing trains" in ran.notes[0]


def test_a_training_without_a_flag_needs_none(tmp_path: Path) -> None:
    text = "class trainer:\n    train = staticmethod(lambda: print('trained'))\n" + ARGPARSE
    text += 'parser.add_argument("--resume", action="store_true")\nargs = parser.parse_args()\n'
    ran = run(tmp_path, text + "if args.resume:\n    trainer.train()\nelse:\n    trainer.train()\n")

    assert (ran.out, ran.words, ran.notes) == ("trained", (), [])

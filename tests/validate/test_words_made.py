"""The word that an argument gets by its name, its type or its help, and what a script's text says that it needs."""

from __future__ import annotations

import ast

import pytest

from porter.validate.stand_ins.command_line.made_up_values import text_value, word_for
from porter.validate.stand_ins.command_line.script_needs import insisted_on, read_unasked, words_by_number
from porter.validate.stand_ins.command_line.training_flags import training_flags


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("train_file", "tpu_port_data.jsonl"),
        ("dataset_name", "tpu-port/data"),
        ("data_dir", "tpu_port_data"),
        ("outputDir", "tpu_port_output"),
        ("base_model", "tpu-port/stand-in"),
        ("hf_token", "tpu-port"),
        ("ds_dev", "tpu_port_data_held_out.jsonl"),
        ("device", "cpu"),
    ],
)
def test_texts_by_name(name: str, word: str) -> None:
    assert text_value(name) == word


def test_a_name_that_says_nothing_has_its_help() -> None:
    assert text_value("rows", "Path to the training dataset.", "json.load(open(path))") == "tpu_port_data.json"
    assert text_value("target", "Folder to save the checkpoints in") == "tpu_port_output"
    assert text_value("run_name", "Name of the run.") == "tpu-port"


@pytest.mark.parametrize(
    ("name", "kind", "word"),
    [("lr", float, "0.0001"), ("max_seq_length", int, "256"), ("num_train_epochs", int, "1"), ("day", int, "1")],
)
def test_numbers_by_name(name: str, kind: type, word: str) -> None:
    assert word_for(name, kind) == word


def test_a_word_that_the_type_takes() -> None:
    assert word_for("ratios", lambda text: [float(part) for part in text.split(",")]) == "0.1"
    assert word_for("base", None, help="the model, e.g. `org/thing`") == "tpu-port"
    assert word_for("model", None, help="a Hub id, e.g. 'org/thing-7b'.") == "org/thing-7b"


def test_reading_what_a_script_needs() -> None:
    assert insisted_on(ast.parse("assert base_model, 'x'\nif a.b is None or not c: raise ValueError")) == {
        "base_model",
        "b",
        "c",
    }
    assert insisted_on(ast.parse("if not x: x = 1")) == set()
    assert insisted_on(ast.parse("if x: login(x)\nelse: raise ValueError")) == {"x"}
    assert insisted_on(ast.parse("if x: y\nelif z: y\nelse: exit()")) == {"z"}
    assert insisted_on(ast.parse("if x == 1: y\nelse: exit()")) == set()
    several = "lost = [name for name, value in asked.items() if not value]\nif lost: "
    assert insisted_on(ast.parse(f"{several}raise ValueError(lost)")) == {"lost", "asked"}
    assert insisted_on(ast.parse(f"{several}print(lost)")) == set()
    assert read_unasked(ast.parse("load_dataset(a.name, data_files={'train': a.train})")) == {"name", "train"}
    assert read_unasked(ast.parse("load_dataset(a.name or 'x')\nif a.path is not None: open(a.path)")) == set()
    rows = ast.parse(
        "class Rows:\n  def __init__(self, tokenizer, path, more=None):\n    self.rows = jload(path)\n"
        "    if more: jload(more)\n    load(tokenizer)\nRows(a.tokenizer, path=a.path, more=a.more)"
    )
    module = ast.parse("def jload(f, mode='r'):\n  if not isinstance(f, IOBase): f = open(f, mode)\n  return f")
    assert read_unasked(rows, [module]) == {"path"}
    loads = (
        "AutoModel.from_pretrained(a.name, dtype=a.dtype)\nif a.tokenizer: AutoTokenizer.from_pretrained(a.tokenizer)"
    )
    assert read_unasked(ast.parse(loads)) == {"name"}
    assert words_by_number(ast.parse("import sys\nif len(sys.argv) > 1: p = sys.argv[1]")) == {}
    assert words_by_number(ast.parse("import sys\nif len(sys.argv) != 3: sys.exit()\na = sys.argv[2]")) == {
        1: "argument1",
        2: "a",
    }


@pytest.mark.parametrize(
    ("text", "words", "settings"),
    [
        ("if '--train' in sys.argv: trainer.train()", {"--train"}, set()),
        ("if '-t' in argv or args.train: SFTTrainer(model).train()", {"-t"}, set()),
        ("if args.train and not args.dry: loss.backward()", set(), {"train"}),
        ("if args.train:\n  if args.deep: trainer.train()", set(), {"train", "deep"}),
        ("if args.quick: trainer.train()\nelse: trainer.train()", set(), set()),
        ("if args.eval: model.train()\nif not args.eval: trainer.train()", set(), set()),
        ("def go():\n  trainer.train()\nif args.go: go()", set(), {"go"}),
        ("def go():\n  trainer.train()\ngo()\nif args.go: go()", set(), set()),
        ("def go():\n  go()\n  trainer.train()\nif args.go: go()", set(), {"go"}),
        ("class Run:\n  def go(self): self.trainer.train()\nif args.go: Run().go()", set(), {"go"}),
        ("if args.go: help.steps()", set(), {"go"}),
    ],
)
def test_flags_of_the_training(text: str, words: set[str], settings: set[str]) -> None:
    module = ast.parse("def steps():\n    trainer.train()\nif args.never: steps()")
    found = training_flags(ast.parse(text), [module] if "steps" in text else [])
    assert (found.words, found.settings) == (words, settings)

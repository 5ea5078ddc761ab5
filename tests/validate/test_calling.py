"""A module that only defines its training: what is called of it, and with what."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from porter.validate.helping import help_for
from porter.validate.running.calling import (
    TEXTS,
    UNCALLED,
    CannotMakeUp,
    Known,
    call_training,
    made_up_arguments,
    made_up_object,
    methods_before,
    training_of,
)
from porter.validate.world.start import special

TRAINS = "    trainer = SFTTrainer(model)\n    trainer.train()\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"def train():\n{TRAINS}", "train"),
        (f"def train():\n{TRAINS}def run(config):\n    return train()\n", "run"),
        ("class Job:\n    def train_llama(self):\n        SFTTrainer(1).train()\n", "Job.train_llama"),
        (
            "class Job:\n    def make(self):\n        return SFTTrainer(1)\n"
            "    def fit(self):\n        self.make().train()\n",
            "Job.fit",
        ),
        (
            "class Job:\n    def __init__(self):\n        self.setup()\n"
            "    def setup(self):\n        self.it = SFTTrainer(1)\n"
            "    def train(self):\n        self.it.train()\n    def save(self):\n        self.it.save_model()\n",
            "Job.train",
        ),
        (f"def train():\n{TRAINS}if __name__ == '__main__':\n    train()\n", ""),  # it decides for itself
        (f"def one():\n{TRAINS}def two():\n{TRAINS}", ""),  # which isn't told
        ("def load():\n    return 1\n", ""),
    ],
)
def test_what_trains_is_what_nothing_else_of_the_module_calls(text: str, name: str) -> None:
    assert training_of(text) == name


@dataclass
class Lora:
    rank: int
    kind: Literal["lora", "dora"]


@dataclass
class Config:
    model_name: str
    lora: Lora
    learning_rate: float
    rows: list[str] = field(default_factory=list)
    note: str | None = None


def test_an_object_of_the_projects_class_gets_what_it_requires() -> None:
    made = made_up_object(Config)
    assert made.lora.rank > 0 and made.lora.kind == "lora"
    assert made.learning_rate == pytest.approx(1e-4)
    assert made.rows == [] and made.note is None


def test_parameters_go_by_annotation_and_name() -> None:
    def train(config: Config, texts: list[str], path: Path, dry: bool, max_length: int, other: int = 3) -> None: ...

    (config, texts, path, dry, length), words = made_up_arguments(train)
    assert words == {}
    assert isinstance(config, Config) and len(set(texts)) == len(texts) > 8
    assert isinstance(path, Path) and dry is False and length == 256


def test_a_pipelines_component_gets_files_of_its_parameters_names() -> None:
    names = special()["kfp.dsl"]()

    def train(dataset, output_model, config) -> None: ...  # type: ignore[no-untyped-def]

    kinds = names["Input"][names["Dataset"]], names["Output"][names["Model"]], names["InputPath"]("YAML")
    train.__annotations__ = dict(zip(("dataset", "output_model", "config"), kinds, strict=True))
    (dataset, output_model, config), _ = made_up_arguments(train, known=Known())
    assert (dataset.path, output_model.path) == ("dataset", "output_model")
    assert isinstance(config, str)
    assert output_model.log_metric("loss", 1.0) is None


def test_what_nothing_tells_of_is_named_and_not_called(tmp_path: Path) -> None:
    def train(bundle): ...  # type: ignore[no-untyped-def]

    with pytest.raises(CannotMakeUp, match="bundle"):
        made_up_arguments(train)
    script, notes = tmp_path / "part.py", list[str]()
    script.write_text(f"def train(bundle):\n{TRAINS}")
    call_training(script, {"train": train}, tmp_path, notes.append)
    said = "it only defines its training, and train wants bundle, which nothing tells how to make up"
    assert notes == [] and (tmp_path / UNCALLED).read_text() == said
    assert "name the script of the project" in help_for("", f"ended without training: {said}")


def test_it_is_called_and_said(tmp_path: Path) -> None:
    script, notes, called = tmp_path / "part.py", list[str](), list[int]()
    script.write_text(f"def train(epochs: int, *, seed: int):\n{TRAINS}")

    def train(epochs: int, *, seed: int) -> None:
        called.extend((epochs, seed))

    call_training(script, {"train": train}, tmp_path, notes.append)
    assert called == [1, 42] and "train was called" in notes[0]


class Strict:
    def __init__(self, rate: float) -> None:
        raise ValueError("only the owner's rate")


class Plain:
    pass


def test_parameters_by_keyword_and_classes_that_refuse_what_is_made_up() -> None:
    def train(plain: Plain, *, epochs: int, note: str = "") -> None: ...

    (plain,), words = made_up_arguments(train)
    assert isinstance(plain, Plain) and words == {"epochs": 1}

    def strict(config: Strict) -> None: ...

    with pytest.raises(CannotMakeUp, match=r"config \(Strict: ValueError\)"):
        made_up_arguments(strict)


USES = """
parser.add_argument("--max_len", type=int, default=77)

def build(cfg):
    return cfg.model.name, cfg["rank"], cfg.get("alpha")

def train(model_path, epochs, lr, batch_size, use_lora, cfg, opts, factor):
    print(factor * 2, opts.learning_rate, opts.max_len, build(cfg), model_path.strip())
    trainer = SFTTrainer(model_path)
    trainer.train()
"""


def test_parameters_without_an_annotation_go_by_their_uses(tmp_path: Path) -> None:
    """Settings have what any function of the project reads of them; the port's function gets the same."""
    source, seen = tmp_path / "part.py", list[tuple[Any, ...]]()
    source.write_text(USES)
    names: dict[str, Any] = {
        "SFTTrainer": lambda model: SimpleNamespace(train=lambda: seen.append((model,))),
        "parser": SimpleNamespace(add_argument=lambda *words, **settings: None),
    }
    exec(compile(USES, str(source), "exec"), names)
    train = names["train"]

    def told(*given: Any) -> None:
        seen.append(given)
        train(*given)

    functools.update_wrapper(told, train)
    (tmp_path / "source").mkdir()
    call_training(source, {"train": told}, tmp_path / "source", lambda line: None)
    path, epochs, rate, batch, lora, cfg, opts, factor = seen[0]
    assert (path, epochs, rate, batch, lora) == ("tpu-port/stand-in", 1, pytest.approx(1e-4), 2, False)
    assert (cfg.model.name, cfg["rank"], opts["max_len"], opts.learning_rate) == (
        "tpu-port/stand-in",
        8,
        77,
        pytest.approx(1e-4),
    )
    assert factor == 1
    port, before = tmp_path / "port.py", seen[0]
    port.write_text("def train(model_path, epochs, lr, batch_size, use_lora, cfg, opts, factor):\n" + TRAINS)
    seen.clear()
    (tmp_path / "port").mkdir()
    call_training(port, {"train": told}, tmp_path / "port", lambda line: None)
    assert seen[0] == before


def test_rows_as_a_list_of_dicts_are_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    rows = [{"q": "what"}, {"q": "why"}]
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **words: datasets.Dataset.from_list(rows))

    def finetune(train_rows: list[dict[str, Any]], others: Sequence[dict]) -> None: ...  # type: ignore[type-arg]

    assert made_up_arguments(finetune) == ([rows, rows], {})


MAPPED = """
from typing import Any, Dict
def run(config: Dict[str, Any], hparams: dict, extra: Any):
    seed = config.get("seed", 42)
    assert config.get("warm") is None and isinstance(config, dict) and isinstance(hparams, dict)
    print(config["model_name"], config["data"], seed, config.get("load_in_4bit"), hparams["optimizer"]["lr"])
    print(config["lr"], extra.strip())
    SFTTrainer(1).train()
class SFTTrainer:
    def __init__(self, *args):
        pass
    def train(self):
        print("trained")
"""


def test_one_of_the_parameters_without_which_it_raises_is_made_up() -> None:
    def train(model: str, rows: list[str] | None = None, path: str | None = None, seed: int | None = None) -> None:
        if rows:
            print(rows)
        elif path:
            print(path)
        else:
            raise ValueError("give one")
        if seed is None:
            print("no seed")

    def other(rows: Any = None, path: str | None = None) -> None:
        if rows is None and not path:
            raise ValueError

    assert made_up_arguments(train, known=Known())[1] == {"rows": list(TEXTS)}
    assert list(made_up_arguments(other, known=Known())[1]) == ["path"]
    assert made_up_arguments(train)[1] == {}  # an object of the project's own


def test_a_dict_of_settings_has_what_is_read_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`config: Dict[str, Any]` tells no more than no annotation does; another module's dict of that kind does."""
    script, text = tmp_path / "trainer.py", f"if False:\n    import settings\n{MAPPED}"
    script.write_text(text)
    (tmp_path / "settings.py").write_text("train_config = {'lr': 3e-5, 'data': 'a.jsonl'}\n")
    for side in ("source", "port"):
        (tmp_path / side).mkdir()
    names: dict[str, Any] = {}
    exec(compile(text, str(script), "exec"), names)

    call_training(script, names, tmp_path / "source", lambda line: None)
    first, second, trained = capsys.readouterr().out.splitlines()
    assert first.split()[1:] == ["a.jsonl", "42", "False", "3e-05"] and second.startswith("3e-05") and trained
    call_training(script, names, tmp_path / "port", lambda line: None)  # which is given the same
    assert capsys.readouterr().out.splitlines() == [first, second, trained]


RUNNER = """
class Runner:
    def __init__(self):
        self.model, self.rows = None, None
    def read(self, path: str):
        self.rows = [path]
    def load(self):
        if not self.rows:
            raise RuntimeError("read first")
        self.model = make(self.rows)
    def save(self):
        self.saved = True
    def train(self, rows: list[str]):
        if self.model is None or rows is None:
            raise RuntimeError("load first")
        Trainer(self.model, rows).train()
"""


def test_methods_without_which_the_training_ends_are_called_before() -> None:
    assert methods_before(RUNNER, "Runner.train") == ["read", "load"]
    assert methods_before(RUNNER.replace("raise RuntimeError", "print"), "Runner.train") == []
    assert methods_before("def train():\n    Trainer(model).train()\n", "train") == []


def test_they_get_what_their_signatures_ask_for(tmp_path: Path) -> None:
    script, told = tmp_path / "runner.py", list[Any]()
    script.write_text(RUNNER)
    names: dict[str, Any] = {
        "make": lambda rows: rows,
        "Trainer": lambda *given: SimpleNamespace(train=lambda: told.append(given)),
    }
    exec(RUNNER, names)
    notes: list[str] = []
    (tmp_path / "rank0").mkdir()
    call_training(script, names, tmp_path / "rank0", notes.append)
    assert len(told) == 1 and told[0][0] and "Runner.load was called before, without which train ends" in notes


class Answering(dict[str, Any]):
    """A dict of a project's own."""

    def __getattr__(self, name: str) -> Any:
        return Answering(self[name]) if isinstance(self[name], dict) else self[name]


def trains_by_config(cfg: Answering) -> Any:
    return cfg.seed, cfg.quant.compute_dtype, cfg.model.name


def test_a_dict_of_the_projects_own_holds_what_its_yaml_files_say(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/base.yaml").write_text(
        "seed: 7\nquant:\n  compute_dtype: float16\nmodel:\n  name: Qwen/Qwen3-8B\n"
    )
    (tmp_path / "configs/full.yaml").write_text("seed: 8\n")
    text = inspect.getsource(trains_by_config)
    (given,), _ = made_up_arguments(trains_by_config, known=Known([ast.parse(text)], project=tmp_path))
    assert isinstance(given, Answering) and trains_by_config(given) == (7, "float16", "Qwen/Qwen3-8B")

"""A file that is left alone for its text alone has nothing that the long way would find."""

import sysconfig
from pathlib import Path

import pytest

import porter.engine.pipeline as pipeline
from porter.engine.foreign import is_foreign
from porter.engine.packs.facts import note_facts
from porter.engine.packs.packs import load_packs
from porter.engine.packs.said_by_packs import facts_in
from porter.engine.script.fill_from_tables import tables_by_class
from porter.errors import InputError
from porter.port import Options
from porter.source.parsing import parse_module

ROOT = Path(__file__).parents[2]
PACKS = load_packs(())
LOOP = """import torch
for batch in loader:
    loss = model(batch['input_ids'])
    loss.backward()
    optimizer.step()
"""


def foreign(text: str, options: Options | None = None) -> bool:
    module = parse_module(text.encode(), "x.py")
    note_facts(module, facts_in(PACKS))
    return is_foreign(module, options or Options(), PACKS)


@pytest.mark.parametrize("name", sorted(tables_by_class(PACKS)))
def test_what_a_table_describes_is_looked_at_by_any_name(name: str) -> None:
    library, _, last = name.rpartition(".")
    assert not foreign(f"from {library} import {last} as x\nx()\n")
    assert not foreign(f"import {library} as y\ny . \\\n {last}()\n")


@pytest.mark.parametrize(
    "text",
    [
        "from trl import *\nSFTTrainer()\n",
        "from src import DistillTrainer\nDistillTrainer().train()\n",
        "import peft\npeft.NewConfig(r=8)\n",
        "from transformers import (\n  A,\n  SomeArguments as B)\nB(x=1)\n",
        LOOP,
        LOOP.replace("loss.backward()", "(loss.backward)()"),
        LOOP.replace("loss.backward()", "(loss.backward  # why\n     ())"),
        LOOP.replace("input_ids", "x").replace("import torch", "import torch, peft"),
        LOOP.replace("input_ids", "x").replace("import torch", "import torch\nimport tiktoken"),
        LOOP.replace("input_ids", "batch_input_ids"),
        LOOP.replace("input_ids", "x").replace(
            "import torch", "import torch\nfrom kogpt2.model import GPT2LMHeadModel"
        ),
    ],
)
def test_what_may_be_said_of_a_file_is_looked_for(text: str) -> None:
    assert not foreign(text)


@pytest.mark.parametrize(
    "text",
    [
        LOOP.replace("input_ids", "pixels"),
        "import torch\nclass Config:\n    pass\nConfig(x=1)\ntorch.nn.Linear(1, 2)\n# adam, backward(s)\n",
        "import json\n",
        "import tiktoken\n\nprint(len(tiktoken.get_encoding('gpt2').encode('text')))\n",
        "import sentencepiece\n\nsentencepiece.SentencePieceProcessor('m.model').encode('text')\n",
    ],
)
def test_nothing_is_looked_for_in_other_files(text: str) -> None:
    module = parse_module(text.encode(), "x.py", lazily=True)
    found = pipeline.port_module(module, Options())
    assert found.status == "unchanged" and found.after == text and "tree" not in module.__dict__


def test_a_launch_file_and_a_notebook_have_more_to_say(tmp_path: Path) -> None:
    assert not foreign("import json\n", Options(launch_config=tmp_path / "fsdp.yaml"))


def test_the_long_way_finds_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """In files of torch, Click and libcst, and of this project."""
    site = Path(sysconfig.get_path("purelib"))
    paths = [*sorted((site / "torch" / "optim").glob("*.py"))[:6], *sorted((site / "click").glob("*.py"))[:4]]
    paths += [*sorted((site / "libcst").glob("*.py"))[:4], *sorted((ROOT / "porter" / "source").glob("*.py"))[:6]]
    modules = [parse_module(path.read_bytes(), str(path), lazily=True) for path in paths]
    short = [pipeline.port_module(module, Options()) for module in modules]
    left = [number for number, module in enumerate(modules) if "tree" not in module.__dict__]
    monkeypatch.setattr(pipeline, "is_foreign", lambda *_: False)
    assert len(left) > 8
    assert [pipeline.port_module(modules[number], Options()) for number in left] == [short[number] for number in left]


def test_what_python_does_not_take_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="does not parse"):
        parse_module(b"def f(:\n", "x.py", lazily=True)


def test_a_language_model_of_a_library_of_its_own_is_not_left_alone() -> None:
    text = LOOP.replace("input_ids", "x").replace("import torch", "import torch\nfrom kogpt2 import GPT2LMHeadModel")
    assert pipeline.port_module(parse_module(text.encode(), "x.py"), Options()).status == "unsupported"

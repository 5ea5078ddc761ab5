"""Whatever lies beside a script: settings, requirements, a model's config and packs are read, or refused in a line."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porter.engine.packs.read_pack import load_pack
from porter.errors import InputError
from porter.front.port_file import port_file
from porter.port import Options, Port
from porter.safety.limits import within_budget
from porter.source.project.release_files import FILES

from .engine.porting import sft_script
from .test_fuzz import QUICK, SECONDS

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2**70,
        1.5,
        float("nan"),
        "",
        "x",
        "gpt2",
        "Qwen/Qwen3-0.6B",
        "a\0b",
        "\ud800",
        "é\u202e",
        [],
        {},
    ]
)
WORDS = "model model_name model_id name architectures model_type hidden_size num_hidden_layers head_dim vocab_size trl"
KEYS = st.sampled_from(WORDS.split()) | st.text(max_size=5)
SETTINGS = st.recursive(
    ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=10
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(autouse=True)
def mistakes_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_PORT_TRACEBACK", "1")


def ported(script: Path, **options: Any) -> Port:
    return within_budget(lambda: port_file(script, Options(**options)), script, SECONDS)


def lines_of(words: str) -> st.SearchStrategy[str]:
    """Lines of some of the words, of text, and of both."""
    word = st.sampled_from(words.split()) | st.text(max_size=4)
    return st.lists(st.lists(word, max_size=6).map(" ".join), max_size=8).map("\n".join)


LOADS = {
    "json": "import json\nsettings = json.load(open('settings.json'))\n",
    "yaml": "import yaml\nsettings = yaml.safe_load(open('settings.yaml'))\n",
    "toml": "import tomllib\nsettings = tomllib.load(open('settings.toml', 'rb'))\n",
}
TOML = lines_of('[model] [[model]] model = "gpt2" name \'x\' [ ] { } , . # """ 1979-05-27 0x1f inf true \\ \r')


@QUICK
@given(SETTINGS, TOML, st.sampled_from(sorted(LOADS)))
def test_settings_that_name_the_model(own: Path, value: Any, text: str, kind: str) -> None:
    script = own / "named.py"
    before = LOADS[kind] + "name = settings['model']\n"
    script.write_text(sft_script(before).replace('"Qwen/Qwen3-0.6B"', "name"))
    text = text if kind == "toml" else json.dumps(value)
    (own / f"settings.{kind}").write_text(text, "utf-8", errors="replace")
    assert ported(script).status in ("ported", "partial")


@QUICK
@given(SETTINGS, st.sampled_from(["", "Qwen3ForCausalLM", "GemmaForCausalLM", "T5Model"]))
def test_a_model_config_of_anything(own: Path, value: Any, architecture: str) -> None:
    script = own / "local.py"
    script.write_text(sft_script().replace("Qwen/Qwen3-0.6B", "base"))
    if isinstance(value, dict) and architecture:
        value = {"architectures": [architecture], **value}
    (own / "base").mkdir(exist_ok=True)
    (own / "base" / "config.json").write_text(json.dumps(value))
    with contextlib.suppress(InputError):
        ported(script, mesh="fsdp=4,tp=2")


@QUICK
@given(SETTINGS, st.sampled_from(["deepspeed", "fsdp_config"]))
def test_settings_that_the_arguments_name(own: Path, value: Any, keyword: str) -> None:
    script = own / "arguments.py"
    script.write_text(sft_script(config=f', {keyword}="settings.anything.json"'))
    if isinstance(value, dict):
        value = {"zero_optimization": value, "activation_checkpointing": value.get("name"), **value}
    (own / "settings.anything.json").write_text(json.dumps(value))
    with contextlib.suppress(InputError):
        ported(script)


PINS = lines_of(
    "trl trl== transformers>=4.40, ==0.8.6 <1 [[package]] name = \"trl\" version '0.9' - == @ v1.2.* ; # ( {"
)


@QUICK
@given(PINS, SETTINGS, st.sampled_from(FILES))
def test_requirements_of_anything(own: Path, text: str, value: Any, name: str) -> None:
    folder = own / "pinned"
    shutil.rmtree(folder, ignore_errors=True)
    file = folder / name.replace("*", "s")
    file.parent.mkdir(parents=True)
    (folder / "train.py").write_text(sft_script())
    text = json.dumps(value) if name == "Pipfile.lock" else text
    file.write_text(text, "utf-8", errors="replace")
    assert ported(folder / "train.py").status in ("ported", "partial")


PACK = 'name = "p"\nversion = "1"\n'
TABLE = (
    'class = "x.C"\nlibrary = "x"\nnewest = "1"\n[fields.a]\nfate = "exact"\ntarget = "t"\ntype = "int"\nhelp = "h"\n'
)
PACKS = lines_of(
    '[[table]] [[rule]] [[rewrite]] [reads] [fields.b] id = "X1" role \'config\' file "table.toml" "../x" class name '
    'matches [ ] { } , fate type default "exact" extends "trl.SFTConfig" \'TP999\' 1 true'
)


@QUICK
@given(PACKS, PACKS, st.booleans(), st.booleans())
def test_a_pack_of_anything(own: Path, pack: str, table: str, whole: bool, rows: bool) -> None:
    folder = own / "pack"
    folder.mkdir(exist_ok=True)
    listed = '[[table]]\nid = "X1"\nfile = "table.toml"\nrole = "arguments"\n' if rows else ""
    (folder / "pack.toml").write_text(PACK * whole + listed + pack, "utf-8", errors="replace")
    (folder / "table.toml").write_text(TABLE + table, "utf-8", errors="replace")
    with contextlib.suppress(InputError):
        for rule in load_pack(folder).tables:
            assert rule.table is not None

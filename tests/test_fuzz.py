"""Whatever a script looks like: no crash, no hang, a port that parses, and a `ported` one that is ported once.

TPU_PORT_FUZZ gives the number of examples a test; `make fuzz` runs for an hour.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from porter.engine.pipeline import port_module
from porter.errors import InputError
from porter.port import Options, Port
from porter.safety.limits import within_budget
from porter.source.launch.launch_config import read_launch_config
from porter.source.module import Module
from porter.source.parsing import parse_module, parse_notebook
from tests.fuzzing import mutated

EXAMPLES = int(os.environ.get("TPU_PORT_FUZZ", "120"))
SECONDS = 30.0
# Without TPU_PORT_FUZZ the same examples every time: a change is refused for what it does, not for what was drawn.
SLOW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    derandomize="TPU_PORT_FUZZ" not in os.environ,
)
QUICK = settings(SLOW, max_examples=EXAMPLES // 2)


def ported(data: bytes, folder: Path) -> Port:
    """The port of a script in a folder of its own, with mistakes of ours raised."""
    path = str(folder / "train.py")
    return within_budget(lambda: port_module(parse_module(data, path), Options()), path, SECONDS)


NEW = ("jax", "jnp", "optax", "ocp", "rt", "math", "PeftTrainer", "TrainingConfig", "mesh")


def check_bound(before: str, module: Module) -> None:
    """What only the port speaks of is bound where it is used."""
    for name in NEW:
        if re.search(rf"\b{name}\b", before):
            continue
        for use in module.loads(name):
            assert module.scope(use).lookup(name) is not None, f"{name} at {module.location(use)}"


@pytest.fixture(autouse=True)
def mistakes_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_PORT_TRACEBACK", "1")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of these tests alone: a pyproject.toml of anything must not lie above another test's."""
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that stays empty: whatever lies beside a script is read."""
    return tmp_path_factory.mktemp("alone")


@SLOW
@given(mutated())
def test_a_mutated_script(alone: Path, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    try:
        found = ported(data, alone)
    except InputError as error:
        assert "not ported after" not in str(error) and "defect of tpu-port" not in str(error), error
        return
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return  # libcst reads more than Python
    ast.parse(found.after)
    after = parse_module(found.data, found.path)
    check_bound(text, after)
    if found.status in ("unchanged", "unsupported"):
        assert found.data == data or found.after != found.before
    elif found.status == "ported":
        again = within_budget(lambda: port_module(after, Options()), found.path, SECONDS)
        assert again.after == found.after


KEYS = st.sampled_from(
    "distributed_type num_processes fsdp_config zero_optimization stage bf16 enabled optimizer params lr scheduler "
    "type "
    "train_batch_size gradient_accumulation_steps deepspeed_config cells source cell_type nbformat metadata".split()
) | st.text(max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


def _read(file: Path) -> None:
    with contextlib.suppress(InputError):
        list(read_launch_config(file))


@QUICK
@given(JSON, st.sampled_from(["yaml", "json"]), st.sampled_from(["", "num_processes: 2\n", "train_batch_size"]))
def test_a_launch_config_of_anything(own: Path, value: object, kind: str, head: str) -> None:
    import yaml

    if isinstance(value, dict) and head:
        value = {**value, head.split(":")[0]: value.get("stage", 2)}
    file = own / f"launch.{kind}"
    file.write_text(json.dumps(value) if kind == "json" else yaml.safe_dump(value, allow_unicode=True), "utf-8")
    _read(file)


WORDS = """accelerate launch --config_file x.yaml --num_processes 8 train.py torchrun --nproc_per_node=$N $( ` ) " ' \\
deepspeed --deepspeed ds.json python -m # && || | ; ${N:-8} $((1+ export N=4 for i in 1 2; do done \u202e é
< <<EOF EOF"""
SHELL = st.lists(st.sampled_from([*WORDS.split(), "\n", "\\\n"]), max_size=25).map(" ".join)


@QUICK
@given(SHELL | st.text(max_size=60))
def test_a_launch_script_of_anything(own: Path, text: str) -> None:
    file = own / "launch.sh"
    file.write_text(text, "utf-8", errors="replace")
    _read(file)


@QUICK
@given(JSON)
def test_a_notebook_of_anything(value: object) -> None:
    document = {"nbformat": 4, "cells": value if isinstance(value, list) else [value]}
    for data in (json.dumps(value), json.dumps(document)):
        with contextlib.suppress(InputError):
            parse_notebook(data.encode(), "train.ipynb")


@QUICK
@given(st.binary(max_size=200))
def test_a_file_of_anything(alone: Path, data: bytes) -> None:
    with contextlib.suppress(InputError):
        found = ported(data, alone)
        assert found.data == data


@QUICK
@given(st.text(max_size=80), st.sampled_from(["", "[tool.tpu-port]\n", "[tool.tpu-port]\nrules = "]))
def test_a_pyproject_of_anything(own: Path, text: str, head: str) -> None:
    from porter.front.project import read_project

    (own / "pyproject.toml").write_text(head + text, "utf-8", errors="replace")
    with contextlib.suppress(InputError):
        read_project(own / "train.py")

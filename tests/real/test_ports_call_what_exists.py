"""Every call that a case's port makes of the runtime, Tunix, Qwix, Optax, Orbax and JAX: the function exists and takes
these arguments."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from porter.front.cases import cases_of
from porter.source.module import Module
from porter.source.parsing import read_module
from porter.tables import packs

pytestmark = pytest.mark.real

LIBRARIES = ("porter", "tunix", "qwix", "optax", "orbax", "jax")
PORTS = [case / "after.py" for pack in packs() for case in cases_of(pack) if case.is_dir()]


def load(name: str) -> Any:
    """The object of a full import name, as `import a.b` and attributes give it."""
    head, *rest = name.split(".")
    found, path = importlib.import_module(head), head
    for part in rest:
        path = f"{path}.{part}"
        if not hasattr(found, part):
            importlib.import_module(path)
        found = getattr(found, part)
    return found


def check(module: Module) -> int:
    """Bind every call of `LIBRARIES` to its signature; the number of calls."""
    seen = 0
    for call in module.calls:
        name = module.qualified(call.func)
        if name is None or name.split(".")[0] not in LIBRARIES:
            continue
        seen += 1
        where = f"{module.path}:{module.location(call)[0]}: {name}"
        target = load(name)
        positional = [argument for argument in call.args if argument.keyword is None and not argument.star]
        keywords = {argument.keyword.value: 0 for argument in call.args if argument.keyword is not None}
        bind = (
            inspect.signature(target).bind_partial if any(a.star for a in call.args) else inspect.signature(target).bind
        )
        try:
            bind(*positional, **keywords)
        except TypeError as error:
            pytest.fail(f"{where}: {error}")
    return seen


@pytest.mark.parametrize("path", PORTS, ids=lambda path: path.parent.name)
def test_calls_of_a_port(path: Path) -> None:
    text = path.read_text(encoding="utf-8-sig")
    assert (check(read_module(path)) > 5) == bool(re.search("(Peft|Preference|Distillation|Metrics)Trainer", text))


def test_a_wrong_keyword_is_seen(tmp_path: Path) -> None:
    script = tmp_path / "port.py"
    script.write_text("import optax\noptax.adamw(1e-3, beta1=0.9)\n")
    with pytest.raises(pytest.fail.Exception, match="unexpected keyword argument 'beta1'"):
        check(read_module(script))

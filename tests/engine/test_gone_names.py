"""Imports that a port can't keep: names that its libraries lost, and those that only ask what is installed."""

from __future__ import annotations

import importlib
import re

import pytest

from porter.engine.packs.packs import load_packs

from .porting import port, sft_script


@pytest.mark.parametrize("name", [name for pack in load_packs() for name, _ in pack.facts.gone])
def test_the_installed_library_has_it_no_more(name: str) -> None:
    library, _, short = name.partition(".")
    assert not hasattr(importlib.import_module(library), short)


def test_a_name_that_is_used_is_an_error_at_its_import() -> None:
    metric = 'rouge = load_metric("rouge")'
    found = port(sft_script(metric, imports="import os\nfrom datasets import load_metric"))
    said = [finding for finding in found.findings if finding.rule == "TP007"]
    assert found.status == "partial" and len(said) == 1 and said[0].line == 2 and "evaluate.load()" in said[0].fix


def test_one_that_nothing_uses_goes() -> None:
    found = port(sft_script(imports="from huggingface_hub import HfApi, HfFolder"))
    assert found.status == "ported" and "HfFolder" not in found.after and "import HfApi\n" in found.after


@pytest.mark.parametrize("module", ["hf_api", "utils"])
def test_one_of_a_module_of_its_library(module: str) -> None:
    imports = f"from huggingface_hub.{module} import HfFolder"
    unused = port(sft_script(imports=imports))
    assert unused.status == "ported" and "HfFolder" not in unused.after
    used = port(sft_script("print(HfFolder)", imports=imports))
    assert [finding.severity for finding in used.findings if finding.rule == "TP007"] == ["error"]


@pytest.mark.parametrize("name", ["HfFolder", "HfFolder()"])
def test_a_folder_of_tokens_becomes_todays_functions(name: str) -> None:
    lines = f"{name}.save_token('x')\nkey = {name}.get_token()\n{name}.delete_token()"
    found = port(sft_script(lines, imports="from huggingface_hub import HfApi, HfFolder"))
    said = "huggingface_hub.login('x')\nkey = huggingface_hub.get_token()\nhuggingface_hub.logout()"
    assert found.status == "ported" and said in found.after and "HfFolder" not in found.after


@pytest.mark.parametrize("module", ["transformers", "transformers.optimization"])
def test_a_name_that_transformers_lost(module: str) -> None:
    unused = port(sft_script(imports=f"from {module} import AdamW, get_scheduler"))
    assert unused.status == "ported" and "AdamW" not in unused.after
    assert ("import get_scheduler\n" in unused.after) is (module == "transformers")  # its module imports torch
    used = port(sft_script("print(AdamW)", imports=f"from {module} import AdamW"))
    [said] = [finding for finding in used.findings if finding.rule == "TP007"]
    assert said.severity == "error" and "torch.optim.AdamW" in said.fix and used.status == "partial"


def test_an_import_that_may_fail_stays() -> None:
    tried = "try:\n    from huggingface_hub import HfFolder\nexcept ImportError:\n    HfFolder = None\nprint(HfFolder)"
    found = port(sft_script(tried))
    assert found.status == "ported" and tried in found.after


def test_a_question_for_a_library_keeps_its_import() -> None:
    asks = """def has_library():
    try:
        import bitsandbytes
        return True
    except ImportError:
        return False
"""
    found = port(sft_script(f"{asks}\nprint(has_library())", imports="import peft"))
    assert asks in found.after and "import peft" not in found.after


@pytest.mark.parametrize(
    "ends", ["raise ImportError('pip install bitsandbytes')", "print('none')\n    sys.exit(1)", "raise SystemExit(1)"]
)
@pytest.mark.parametrize("asks", ["import bitsandbytes", "import bitsandbytes\n    import peft  # noqa: F401"])
def test_a_guard_that_ends_the_run_goes_with_its_library(asks: str, ends: str) -> None:
    guard = f"# Needed for 4 bits.\ntry:\n    {asks}\nexcept ImportError:\n    {ends}\n"
    found = port(sft_script(guard, imports="import sys"))
    assert found.status == "ported", found.findings
    assert not [word for word in ("try:", "bitsandbytes", "ImportError", "import peft") if word in found.after]


def test_what_else_is_tried_stays() -> None:
    guard = "try:\n    import bitsandbytes\n    print('there')\nexcept ImportError:\n    sys.exit(1)\n"
    found = port(sft_script(guard, imports="import sys"))
    assert "try:\n    print('there')\nexcept ImportError:\n    sys.exit(1)\n" in found.after
    both = "try:\n    import bitsandbytes\nexcept ImportError:\n    sys.exit(1)\nelse:\n    print('there')\n"
    found = port(sft_script(both, imports="import sys"))
    assert "try:\n    pass\nexcept ImportError:\n    sys.exit(1)\nelse:\n    print('there')\n" in found.after


def test_a_question_that_stays_is_a_warning() -> None:
    asks = "try:\n    import bitsandbytes\n    HAS = True\nexcept ImportError:\n    HAS = False\nprint(HAS)\n"
    found = port(sft_script(asks))
    said = [finding for finding in found.findings if finding.rule == "TP001"]
    assert asks in found.after and [one.severity for one in said] == ["warning"]
    assert "Whether bitsandbytes is there" in said[0].message


@pytest.mark.parametrize(
    ("lines", "said", "stays"),
    [
        ("from google.colab import userdata", [], False),
        ("from google.colab import drive\ndrive.mount('/content/drive')", ["Colab"], True),
        ("from kaggle_secrets import UserSecretsClient as Client\nkey = Client().get_secret('x')", ["Kaggle"], True),
        ("try:\n    from google.colab import drive\nexcept ImportError:\n    drive = None", [], True),
        ("if sys.argv:\n    from google.colab import drive\n    drive.mount('/x')", [], True),
        ("from google.cloud import storage", [], True),
    ],
)
def test_a_notebook_services_module_is_said_or_goes(lines: str, said: list[str], stays: bool) -> None:
    found = port(sft_script(lines, imports="import sys"))
    warned = [finding for finding in found.findings if finding.rule == "TP007"]
    assert [re.findall(r"in (\w+) alone", finding.message)[0] for finding in warned] == said
    assert {finding.severity for finding in warned} <= {"warning"}
    assert (lines.splitlines()[0] in found.after) is stays

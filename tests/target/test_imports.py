"""Imports of the port: what nothing uses any more goes, what is new stands where it belongs."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from porter.engine.packs.facts import is_like
from porter.engine.packs.packs import load_packs
from porter.engine.packs.said_by_packs import facts_in
from porter.text.import_lines import NewImport, names_in, parse_import

from ..engine.porting import PLAIN, check_becomes, port


@pytest.mark.parametrize(
    ("code", "name", "there"),
    [
        ('load("trl-lib/Capybara")', "trl", False),
        ("x = 1  # trl", "trl", False),
        ('"""trl"""', "trl", False),
        ("r'a\\'trl'", "trl", False),
        ('f"{trl.x} trl"', "trl", True),
        ("trl.x + 'trl'", "trl", True),
        ("'a' + trl + 'b'", "trl", True),
    ],
)
def test_names_are_told_from_words(code: str, name: str, there: bool) -> None:
    assert (name in names_in(code)) is there


def test_one_import() -> None:
    assert parse_import("import jax.numpy as jnp") == NewImport("jax.numpy", "", "jnp")
    assert parse_import("from a.b import C").bound == "C"
    with pytest.raises(ValueError, match="not one import"):
        parse_import("import a, b")


def test_an_import_that_is_still_used_stays_and_is_said() -> None:
    found = check_becomes("import torch\n" + PLAIN + "print(torch.ones(2))\n", "import torch\n", "torch.ones(2)")
    assert [f.rule for f in found.findings if f.severity == "warning"] == ["TP001"]


@pytest.mark.parametrize(
    "line", ["from transformers.trainer import TRAINING_ARGS_NAME", "from transformers.pytorch_utils import Conv1D"]
)
def test_a_module_of_transformers_that_imports_torch_is_said(line: str) -> None:
    found = check_becomes(f"{line}\n" + PLAIN + f"print({line.split()[-1]})\n", line)
    assert ["torch is still used" in f.message for f in found.findings if f.severity == "warning"] == [True]


def test_the_modules_that_need_torch_do() -> None:
    needs = dict(facts_in(load_packs()).import_needs)
    package = Path(find_spec("transformers").origin).parent  # type: ignore[union-attr,arg-type]
    folders = [package, *(package / name for name in ("data/datasets", "generation", "loss", "pipelines"))]
    for file in (file for folder in folders for file in folder.glob("*.py")):
        name = ".".join(("transformers", *file.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        at_top = re.search(r"(?m)^(import|from) torch\b", file.read_text("utf-8"))
        assert at_top is None or is_like(name, needs), name
    for name in ("trainer_utils", "trainer_callback", "utils", "data.data_collator", "pipelines.base", "integrations"):
        assert not is_like(f"transformers.{name}", needs)


@pytest.mark.parametrize(
    "line",
    [
        "from transformers.pipelines.pt_utils import KeyDataset",
        "from transformers.modeling_outputs import CausalLMOutputWithPast",
        "import transformers.trainer_pt_utils as pt",
    ],
)
def test_a_module_that_imports_torch_and_that_nothing_uses_goes(line: str) -> None:
    check_becomes(f"{line}\n" + PLAIN, "from datasets import load_dataset", gone=(line,))


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("import torch; torch.cuda.empty_cache(); print(1)", "print(1)\n"),
        ("import torch, os; torch.cuda.empty_cache(); print(os.sep)", "import os; print(os.sep)\n"),
        ("import sys; import peft; print(sys.path)  # where", "import sys; print(sys.path)  # where\n"),
        ("import peft; import trl", ""),
        ("if KEY:\n    import torch; torch.cuda.empty_cache()\nprint(KEY)", "if KEY:\n    pass\nprint(KEY)\n"),
        ("from huggingface_hub import HfFolder; HfFolder.save_token(KEY)", "huggingface_hub.login(KEY)\n"),
    ],
)
def test_of_a_line_of_several_statements_what_nothing_uses_goes(line: str, becomes: str) -> None:
    gone = ("import torch", "import peft", "import trl", "HfFolder")
    found = check_becomes(f"KEY = 'x'\n{line}\n" + PLAIN, f"KEY = 'x'\n{becomes}", gone=gone)
    assert found.status == "ported"


def test_a_line_of_several_statements_at_the_top_keeps_what_is_written_there() -> None:
    text = "from huggingface_hub.hf_api import HfFolder; HfFolder.save_token('x')\n" + PLAIN
    check_becomes(text, "huggingface_hub.login('x')\n", gone=("HfFolder",))


def test_label_smoothers_ignore_index_is_its_value() -> None:
    text = "from transformers.trainer_pt_utils import LabelSmoother\n\nIGNORE = LabelSmoother.ignore_index\n"
    check_becomes(text + PLAIN + "print(IGNORE)\n", "IGNORE = -100\n", gone=("LabelSmoother", "torch"))


def test_an_import_that_the_source_never_used_stays() -> None:
    check_becomes("import numpy as np\n" + PLAIN, "import numpy as np\n")


def test_gpu_libraries_that_nothing_uses_go() -> None:
    check_becomes(
        "import torch, os\nimport peft\nprint(os.sep)\n" + PLAIN, "import os\n", gone=("import torch", "import peft")
    )


def test_a_name_of_several_stays() -> None:
    text = PLAIN.replace("from trl import SFTConfig, SFTTrainer", "from trl import SFTConfig, SFTTrainer, pack_dataset")
    check_becomes(text + "print(pack_dataset)\n", "from trl import pack_dataset\n", status="partial")


def test_the_order_of_the_source_is_kept() -> None:
    text = "import sys\nimport os\nimport zlib\n\nprint(sys, os, zlib)\n"
    assert (
        "import sys\nimport os\nimport zlib\n"
        in port(PLAIN.replace("from datasets", "\nfrom datasets", 1) + text).after + text
    )


def test_the_runtime_has_a_group_of_its_own() -> None:
    after = port(PLAIN).after
    assert "\n\nfrom porter import runtime as rt\n\n" in after


def test_imports_in_a_function_stay_there() -> None:
    body = "".join(f"    {line}\n" if line else "\n" for line in PLAIN.splitlines())
    found = check_becomes(
        "def main():\n" + body + "\n\nmain()\n", "    import jax\n", "    from porter import runtime as rt\n"
    )
    assert not found.after.startswith("import")


def test_a_star_import_stays() -> None:
    check_becomes("from mine import *\n" + PLAIN, "from mine import *\n")


def test_an_import_under_try_stays_under_it() -> None:
    text = PLAIN.replace(
        "from trl import SFTConfig, SFTTrainer",
        "try:\n    from trl import SFTConfig, SFTTrainer\nexcept ImportError:\n    raise",
    )
    check_becomes(text, "try:\n    import jax\n", "rt\nexcept ImportError:\n    raise\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if more:\n    import torch\n    from peft import LoraConfig, TaskType\nprint(1)\n", "print(1)\n"),
        ("if more:\n    if most:\n        import torch\n        import peft\nprint(1)\n", "print(1)\n"),
        (
            "if more:\n    import torch\n    import peft\nelse:\n    print(2)\n",
            "if more:\n    pass\nelse:\n    print(2)\n",
        ),
        ("def f():\n    import torch\n    import peft\n\n\nprint(1)\n", "def f():\n    pass\n\n\nprint(1)\n"),
        ("class A:\n    import torch\n    import peft\n\n\nprint(1)\n", "class A:\n    pass\n\n\nprint(1)\n"),
        ("if more:\n    import torch\n    print(3)\nprint(1)\n", "if more:\n    print(3)\nprint(1)\n"),
    ],
)
def test_a_block_of_imports_that_go_is_not_left_empty(before: str, after: str) -> None:
    found = port("more = most = True\n" + before + PLAIN)
    assert found.after.startswith("more = most = True\n" + after), found.after
    assert found.status == "ported"


def test_an_import_behind_all_uses_of_its_name_goes() -> None:
    """A notebook's cells import again what an earlier one has."""
    first = "import torch\nprint(torch.ones(2))\n"
    found = check_becomes(f"{first}import torch\nprint(torch.cuda.get_device_name(0))\n" + PLAIN, "torch.ones(2)")
    assert found.after.count("import torch\n") == 1
    kept = "def go():\n    return torch.ones(2)\nimport torch\n"
    assert "import torch\n" in port(kept + PLAIN).after


@pytest.mark.parametrize(
    ("line", "used", "said"),
    [
        ("from transformers import AutoModelForCausalLM", "AutoModelForCausalLM.from_pretrained('out')", True),
        ("from transformers import pipeline", "pipeline('text-generation', 'gpt2')", True),
        ("from transformers import AutoModelForCausalLM", "held: AutoModelForCausalLM = None", False),
        ("import torch; print(torch.ones(2))", "", True),
        ("from torch import __version__; from json import dumps", "print(dumps(__version__))", True),
        ("import json; from transformers import pipeline", "pipeline('text-generation', 'gpt2')", True),
        ("import json; from transformers import pipeline", "print(json, pipeline)", False),
        ("if False:\n    import torch; print(torch.ones(2))", "", False),
    ],
)
def test_what_calls_torch_is_said(line: str, used: str, said: bool) -> None:
    found = port(f"{line}\n{PLAIN}print(rows)\n{used}\n")
    assert ("torch is still used" in str([f.message for f in found.findings])) is said

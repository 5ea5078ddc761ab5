"""is_deepspeed_zero3_enabled(): no branch for DeepSpeed, and nothing of it, is left in a port."""

import pytest

from .porting import port, sft_script

DIRECT = "from transformers.integrations import is_deepspeed_zero3_enabled"


def script(lines: str, load: str = "", imports: str = DIRECT) -> str:
    named = f"import os\n{imports}"
    return sft_script('qlora, moe = True, os.environ.get("MOE")', imports=named, load=load, between=lines)


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("if is_deepspeed_zero3_enabled():\n    model.z3()", ""),
        ("if not is_deepspeed_zero3_enabled():\n    print('a')", "print('a')"),
        (
            "if is_deepspeed_zero3_enabled():\n    model.z3()\nelse:\n    print('a')\n    print('b')",
            "print('a')\nprint('b')",
        ),
        ("if is_deepspeed_zero3_enabled():\n    model.z3()\nelse:\n    # why\n    print('a')", "# why\nprint('a')"),
        (
            "if not is_deepspeed_zero3_enabled():\n    model.config.use_cache = False\n    print('a')\n    print('b')",
            "print('a')\nprint('b')\n",
        ),
        (
            "if not is_deepspeed_zero3_enabled():\n    print('a')\n    model.config.use_cache = False\n    print('b')",
            "print('a')\nprint('b')\n",
        ),
        (
            "if not is_deepspeed_zero3_enabled():\n# why\n    print('a')\n    print('b')",
            "# why\nprint('a')\nprint('b')\n",
        ),
        ("if is_deepspeed_zero3_enabled():\n    model.z3()\nelse:\n    model.config.use_cache = False", ""),
        ("if is_deepspeed_zero3_enabled():\n    model.z3()\nelif moe:\n    print('a')", "if moe:\n    print('a')"),
        ("if moe and is_deepspeed_zero3_enabled():\n    from deepspeed.utils import z\n    z(model)", ""),
        ("if moe or is_deepspeed_zero3_enabled():\n    print('a')", "if moe:\n    print('a')"),
        ("if qlora and not is_deepspeed_zero3_enabled():\n    print('a')", "if qlora:\n    print('a')"),
        (
            "if not (moe or is_deepspeed_zero3_enabled()) and qlora:\n    print('a')",
            "if not (moe) and qlora:\n    print('a')",
        ),
        ("name = 'zero' if is_deepspeed_zero3_enabled() else 'plain'\nprint(name)", "name = 'plain'\nprint(name)"),
        ("use = not is_deepspeed_zero3_enabled()\nprint(use)", "use = True\nprint(use)"),
    ],
)
def test_what_it_decides_is_decided(lines: str, left: str) -> None:
    ported = port(script(lines))
    assert ported.status == "ported", ported.findings
    assert "zero3" not in ported.after and "deepspeed" not in ported.after and "z3" not in ported.after
    assert "use_cache" not in ported.after
    assert left in ported.after and (left or "if " not in ported.after)


@pytest.mark.parametrize(
    ("imports", "asks"),
    [
        ("from transformers import deepspeed", "deepspeed.is_deepspeed_zero3_enabled()"),
        ("import transformers.integrations as hf", "hf.is_deepspeed_zero3_enabled()"),
        ("from transformers.trainer_pt_utils import is_deepspeed_zero3_enabled as z3", "z3()"),
    ],
)
def test_however_it_is_imported(imports: str, asks: str) -> None:
    ported = port(script(f"if {asks}:\n    print('apart')", f", low_cpu_mem_usage=not {asks}", imports))
    assert ported.status == "ported"
    assert "zero3" not in ported.after and "apart" not in ported.after


def test_a_function_of_the_scripts_own_is_left_alone() -> None:
    ported = port(script("if is_deepspeed_zero3_enabled():\n    print('mine')", imports="from mine import *"))
    assert "print('mine')" in ported.after and "if is_deepspeed_zero3_enabled():" in ported.after


def test_a_branch_inside_a_function_keeps_its_depth() -> None:
    ask = "if not is_deepspeed_zero3_enabled():"
    lines = f"def tell(n):\n    {ask}\n        print(n)\n        if n:\n            print('more')\n    return n"
    after = port(script(lines)).after
    assert "def tell(n):\n    print(n)\n    if n:\n        print('more')\n    return n\n" in after

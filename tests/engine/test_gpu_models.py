"""Which model a script loads where it asks for a GPU: the GPU's, and an error where that can't be told."""

from __future__ import annotations

import pytest

from .gpu_scripts import DEVICE, script
from .porting import port, sft_script

LOADS = """\
if {asked}:
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", load_in_4bit=True, dtype=torch.bfloat16)
else:
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.float32, device_map="cpu")
"""


@pytest.mark.parametrize(
    ("before", "asked", "left"),
    [
        ("gpu = torch.cuda.is_available()\nprint(f'GPU: {gpu}')\n", "gpu", "gpu = True\n"),
        ("gpu = not torch.cuda.is_available()\n", "not gpu", "gpu = False\n"),
        ("", "torch.cuda.is_available()", "\nmodel = rt.load_model("),
    ],
)
def test_a_branch_that_loads_the_model_is_the_gpu_s(before: str, asked: str, left: str) -> None:
    text = sft_script(f"{before}{LOADS.format(asked=asked)}", imports="import torch\nfrom peft import LoraConfig")
    start = text.index("model = AutoModelForCausalLM.from_pretrained", text.index('device_map="cpu"'))
    text = text[:start] + text[text.index("\n", start) + 1 :]
    found = port(text.replace("    processing_class", "    peft_config=LoraConfig(r=8),\n    processing_class"))
    assert left in found.after and "is_available" not in found.after
    assert "TP526" not in {finding.rule for finding in found.findings}


def test_a_branch_whose_question_also_places_something_stays_and_is_named() -> None:
    text = f"gpu = torch.cuda.is_available()\nmine = Mine('cuda' if gpu else 'cpu')\n{LOADS.format(asked='gpu')}"
    found = port(sft_script(text, imports="import torch"))
    assert "gpu = torch.cuda.is_available()\n" in found.after
    assert "TP526" in {finding.rule for finding in found.findings}


def load(test: str) -> str:
    """A model in half precision under a condition, in float32 otherwise."""
    return (
        f"args = parse()\nif {test}:\n"
        "    model = AutoModelForCausalLM.from_pretrained(NAME, torch_dtype=torch.float16)\n"
        "else:\n    model = AutoModelForCausalLM.from_pretrained(NAME, torch_dtype=torch.float32)\n"
    )


def mixed(before: str) -> str:
    """A script that makes its model in lines of its own."""
    whole = script(f'NAME = "Qwen/Qwen3-0.6B"\n{before}')
    return whole.replace('model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")\n', "")


HALF = "torch_dtype=torch.float16 if {} else torch.float32)\n"
LOAD = "model = AutoModelForCausalLM.from_pretrained(NAME, "


@pytest.mark.parametrize(
    ("before", "left"),
    [
        (load("torch.cuda.is_available() and not args.full"), "if not args.full:\n    model = rt.load_model("),
        (load("args.half or not torch.cuda.is_available()"), "if args.half:\n    model = rt.load_model("),
        (
            load("not torch.cuda.is_available() and args.x"),
            "args = parse()\nm",
        ),
        (
            f"cuda = torch.cuda.is_available()\n{load('cuda and args.half')}",
            "if args.half:\n    model = rt.load_model(",
        ),
        (
            f"args = parse()\n{LOAD}{HALF.format('args.half and torch.cuda.is_available()')}",
            "jnp.bfloat16 if args.half else",
        ),
        (
            f"args = parse()\ncuda = torch.cuda.is_available() and args.half\n{LOAD}{HALF.format('cuda')}",
            "cuda = args.half\n",
        ),
        (
            f"args = parse()\nif args.full:\n    {LOAD}torch_dtype=torch.float32)\nelif torch.cuda.is_available():\n"
            f"    {LOAD}torch_dtype=torch.float16)\nelse:\n    {LOAD}torch_dtype=torch.float32)\n",
            "compute_dtype=jnp.bfloat16)\nelse:\n    model = rt.load_model(NAME, mesh, dtype=jnp.bfloat16)\n",
        ),
        (
            "def kind(args):\n    if args.half and torch.cuda.is_available():\n        return torch.float16\n"
            f"    return torch.float32\n{LOAD}torch_dtype=kind(parse()))\n",
            "    if args.half:\n        return jnp.bfloat16\n    return jnp.float32\n",
        ),
        (
            "def kind():\n    if torch.cuda.is_available():\n        return torch.float16\n"
            f"    return torch.float32\n{LOAD}torch_dtype=kind())\n",
            "NAME, mesh, dtype=jnp.bfloat16)",
        ),
        (
            'kwargs = {}\nif torch.cuda.is_available() and parse():\n    kwargs["torch_dtype"] = torch.float16\n'
            f'    kwargs["device_map"] = "auto"\n{LOAD}**kwargs)\n',
            "if parse():\n",
        ),
        (f"{DEVICE}{load('device == ' + repr('cuda'))}", "dtype=jnp.bfloat16)\n"),
        (
            'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
            f"{LOAD}{HALF.format('device.type == ' + repr('cuda'))}",
            "rt.load_model(NAME, mesh, dtype=jnp.bfloat16)",
        ),
        (
            "args = parse()\nif args.half and (not torch.cuda.is_available() or not torch.cuda.is_bf16_supported()):\n"
            f"    args.half = False\n{LOAD}torch_dtype=torch.float16)\n",
            "args = parse()\nm",
        ),
        (
            f"args = parse()\nassert torch.cuda.is_available() and args.half\n{LOAD}torch_dtype=torch.float16)\n",
            "assert args.half",
        ),
        (
            'kwargs = {}\nif torch.cuda.device_count() > 1 and parse():\n    kwargs["device_map"] = "auto"\n'
            f"{LOAD}**kwargs)\n",
            "model = rt.load_model(NAME, mesh)\n",
        ),
    ],
)
def test_the_other_part_of_a_condition_decides(before: str, left: str) -> None:
    """As on the GPU, where the question for one was answered yes."""
    found = port(mixed(before))
    assert left in found.after, found.after
    assert "is_available" not in found.after and " True" not in found.after.replace("=True", "")
    assert not [finding for finding in found.findings if finding.rule == "TP526"]


@pytest.mark.parametrize(
    ("before", "names"),
    [
        (
            "device = 'cuda' if torch.cuda.is_available() and parse() else 'cpu'\n"
            f"kind = torch.float16 if device == 'cuda' else torch.float32\n{LOAD}torch_dtype=kind)\n",
            "kind",
        ),
        (f"device = 'cuda' if torch.cuda.is_available() and parse() else 'cpu'\n{LOAD}device_map=device)\n", ""),
    ],
)
def test_what_decides_the_model_and_stays_is_an_error(before: str, names: str) -> None:
    said = [finding for finding in port(mixed(before)).findings if finding.rule == "TP526"]
    assert [finding.severity for finding in said] == ["error" if names else "warning"]
    assert not names or f"it decides {names}, which" in said[0].message


def test_keywords_that_a_branch_puts_into_the_load_are_the_gpu_s() -> None:
    lines = """\
options = {{"pretrained_model_name_or_path": "Qwen/Qwen3-0.6B"}}
if torch.cuda.is_available():
    print("on it")
    options["device_map"] = torch.device("cuda")
    options["torch_dtype"] = torch.bfloat16
else:
    {other}
model = AutoModelForCausalLM.from_pretrained(**options)
"""
    for other in ('options["torch_dtype"] = torch.float32', 'print("slow")'):
        text = sft_script(lines.format(other=other), imports="import torch")
        start = text.index('model = AutoModelForCausalLM.from_pretrained("Qwen')
        found = port(text[:start] + text[text.index("\n", start) + 1 :])
        assert found.status == "ported" and "is_available" not in found.after and other not in found.after
        assert 'print("on it")\n' in found.after

"""Settings that torch.cuda answers for: they are what they were on the GPU."""

from __future__ import annotations

import pytest

from .gpu_scripts import DEVICE, script
from .porting import port, sft_script


@pytest.mark.parametrize(
    "asked",
    [
        "torch.cuda.is_available() and torch.cuda.is_bf16_supported()",
        "torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8",
        "torch.cuda.is_available()",
    ],
)
def test_a_setting_is_what_it_was_on_the_gpu(asked: str) -> None:
    assert port(script(extra=f", bf16={asked}")).recipe.values["precision.bf16"].is_literal(True)
    kept = port(script(extra=f", bf16={asked}, fp16=not {asked}", more="folders = sys.argv\n", folder="folders[1]"))
    assert "is_available" not in kept.after
    named = port(script(f"use_bf16 = {asked}\n", extra=", bf16=use_bf16, save_strategy=sys.argv[1]"))
    assert "use_bf16 = True\n" in named.after and "bf16=use_bf16" in named.after


def test_an_optimizer_by_device_is_the_gpu_s() -> None:
    ported = port(script(extra=', optim="adamw_torch_fused" if torch.cuda.is_available() else "sgd"'))
    assert "optax.adamw(" in ported.after and "is_available" not in ported.after


def test_types_by_device_are_the_gpu_s() -> None:
    chosen = "dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32\n"
    ported = port(script(chosen).replace('dtype="bfloat16"', "dtype=dtype"))
    assert "dtype=jnp.bfloat16)" in ported.after and "is_available" not in ported.after


@pytest.mark.parametrize(
    "asked",
    ["torch.cuda.is_bf16_supported()", "torch.cuda.get_device_capability()[0] >= 8", "torch.cuda.is_available()"],
)
def test_a_choice_of_types_is_the_gpu_s_and_no_branch_is_left(asked: str) -> None:
    chosen = (
        "    dtype = torch.bfloat16\n    half = True  # it has\nelse:\n    dtype = torch.float16\n    half = False\n"
    )
    text = script(f"if {asked}:\n{chosen}sys.argv.append(half)\n").replace('dtype="bfloat16"', "dtype=dtype")
    ported = port(text)
    assert "\ndtype = jnp.bfloat16\nhalf = True  # it has\nsys.argv.append(half)\n" in ported.after
    assert "if True" not in ported.after and "else:" not in ported.after and "cuda" not in ported.after


def test_other_settings_that_only_a_gpu_can_answer_for_are_decided_too() -> None:
    before = (
        "if torch.cuda.is_bf16_supported():\n    dtype, kernel = torch.bfloat16, 'flash_attention_2'\n"
        "else:\n    dtype, kernel = torch.float16, 'eager'\nsys.argv.append(kernel)\n"
    )
    assert "\ndtype, kernel = jnp.bfloat16, 'flash_attention_2'\nsys.argv" in port(script(before)).after
    longer = before.replace("    dtype, kernel = torch.bf", "    sys.argv.append('x')\n    dtype, kernel = torch.bf")
    assert (
        "\nsys.argv.append('x')\ndtype, kernel = jnp.bfloat16, 'flash_attention_2'\nsys.argv"
        in port(script(longer)).after
    )


def test_a_batch_divided_by_the_gpus_is_the_gpu_run_s() -> None:
    text = script("count = torch.cuda.device_count()\n", extra=", per_device_train_batch_size=64 // count")
    assert "count = 1\n" in port(text).after and "count = 4\n" in port(text, processes=4).after


def test_a_function_that_asks_for_bfloat16_answers_as_on_the_gpu() -> None:
    ready = "def ready():\n    return torch.cuda.is_available() and torch.cuda.is_bf16_supported()\n\n\n"
    ported = port(script(f"{ready}print(ready())\n", extra=", bf16=ready()"))
    assert "    return True\n" in ported.after
    assert "torch" not in ported.after
    assert not [finding for finding in ported.findings if finding.rule == "TP526"]


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("rows = 8 if torch.cuda.is_available() else 2\n", "rows = 8\n"),
        ("rows = 2\nif torch.cuda.is_available():\n    rows = 8\n", "rows = 2\nrows = 8\n"),
        (
            "rows = 8 if len(sys.argv) > 9 and torch.cuda.is_available() else 2\n",
            "rows = 8 if len(sys.argv) > 9 else 2\n",
        ),
        (
            "rows = 2\nif sys.argv and torch.cuda.is_available():\n    rows = 8\n",
            "rows = 2\nif sys.argv:\n    rows = 8\n",
        ),
    ],
)
def test_a_value_of_the_gpu_run_is_taken(asked: str, left: str) -> None:
    ported = port(script(asked, extra=", per_device_train_batch_size=rows"))
    assert ported.status == "ported" and left in ported.after
    assert "is_available" not in ported.after


def test_a_switch_of_settings_is_no_place_whatever_its_name() -> None:
    asked = "if torch.cuda.is_available():\n    rows = 1\n    {0} = True\nelse:\n    rows = 1\n    {0} = False\n"
    pinned = ", per_device_train_batch_size=rows, dataloader_pin_memory={}"
    taken = port(script(asked.format("device_pin_memory"), extra=pinned.format("device_pin_memory")))
    assert taken.status == "ported" and "is_available" not in taken.after
    moves = asked.format("on_device") + "if on_device:\n    print(torch.zeros(2).cuda())\n"
    left = port(script(moves, extra=pinned.format("False")))
    assert left.status == "partial" and "is_available" in left.after


def test_whether_apples_gpu_is_asked_for_is_a_place() -> None:
    """The port's settings take it from a name that is no device of the training."""
    asks = 'device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n'
    made = "args = SFTConfig('out', max_steps=5, report_to='none', use_mps_device=True if device == 'mps' else False)\n"
    text = script(f"{asks}{made}", more="args.seed = len(sys.argv)\nsys.argv.append(torch.device(device))\n")
    start, end = text.index("SFTConfig(output_dir"), text.index(",\n    train_dataset")
    found = port(f"{text[:start]}args{text[end:]}")
    assert found.status == "ported" and "use_mps_device=True if device == 'mps' else False" in found.after
    half = port(f"{text[:start]}args{text[end:]}".replace("use_mps_device=True if device == 'mps'", "seed=1 if device"))
    assert any("it decides device, which the training takes" in finding.message for finding in half.findings)


def test_a_batch_size_by_the_gpus_memory_is_left_to_a_person() -> None:
    asked = (
        "if torch.cuda.is_available():\n"
        "    memory = torch.cuda.get_device_properties(0).total_memory\n"
        "    if memory > 2e10:\n        rows = 8\n    else:\n        rows = 2\n"
        "else:\n    rows = 1\n"
    )
    ported = port(script(asked, extra=", per_device_train_batch_size=rows"))
    (said,) = (finding for finding in ported.findings if finding.rule == "TP526")
    assert ported.status == "partial" and "it decides rows, which the training takes" in said.message


def test_a_switch_that_a_function_hands_to_the_settings() -> None:
    made = "def make(half):\n    return SFTConfig('out', max_steps=5, report_to='none', bf16=half)\n"
    asks = "gpu = torch.cuda.is_available()\nhalf = gpu and torch.cuda.is_bf16_supported()\nprint(f'GPU: {gpu}')\n"
    text = script(f"{made}{asks}args = make(half)\n", more="args.seed = len(sys.argv)\n")
    start, end = text.index("SFTConfig(output_dir"), text.index(",\n    train_dataset")
    found = port(f"{text[:start]}args{text[end:]}")
    assert "half = True\n" in found.after and "is_available" not in found.after
    other = port(f"{text[:start]}args{text[end:]}".replace("print(f'GPU: {gpu}')", "load(gpu)"))
    assert "gpu = torch.cuda.is_available()\n" in other.after


HELD = "bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')\n"


@pytest.mark.parametrize("asked", ["torch.cuda.is_available()", "HAS", "HAS and True"])
@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("quantization_config=bnb if {} else None", 'quantization="nf4"'),
        ("revision=sys.argv[1] if {} else sys.argv[2]", "revision=sys.argv[1])"),
        ("revision=sys.argv[1] if not ({}) else sys.argv[2]", "revision=sys.argv[2])"),
    ],
)
def test_what_a_setting_is_on_the_gpu_is_what_the_port_has(asked: str, where: str, left: str) -> None:
    text = sft_script(
        f"HAS = torch.cuda.is_available()\n{HELD}",
        imports="import sys, torch\nfrom peft import LoraConfig\nfrom transformers import BitsAndBytesConfig",
        load=f", {where.format(asked)}",
        trainer=f", peft_config=LoraConfig(r=8) if {asked} else None",
    )
    found = port(text)
    assert found.status == "ported", found.findings
    assert left in found.after and "is_available" not in found.after and "rt.apply_lora(" in found.after


def test_a_part_of_a_setting_is_what_it_is_on_the_gpu() -> None:
    part = "revision='-'.join([sys.argv[1] if torch.cuda.is_available() else 'x', 'y'])"
    found = port(sft_script(imports="import sys, torch", load=f", {part}"))
    assert "revision='-'.join([sys.argv[1], 'y'])" in found.after


@pytest.mark.parametrize(
    ("extra", "left"),
    [
        (", bf16=args.half and torch.cuda.is_bf16_supported() and torch.cuda.is_available()", "if args.half else"),
        (", learning_rate=1e-4 if args.half and torch.cuda.is_available() else 1e-5", "1e-4 if args.half else 1e-5"),
        (", gradient_checkpointing=not args.half and torch.cuda.is_available()", "if not args.half:\n"),
    ],
)
def test_settings_keep_what_the_script_decides_itself(extra: str, left: str) -> None:
    found = port(script("args = parse()\n", extra=extra))
    assert "torch.cuda" not in found.after and (left in found.after or "bf16" in extra)


@pytest.mark.parametrize(
    "line", ["half, other = False, False", "half: bool = False", "half &= False", "(other, [half]) = 0, [False]"]
)
def test_every_way_to_give_a_name_a_value_is_followed(line: str) -> None:
    before = "half = True\nif torch.cuda.is_available() and parse():\n    device = 'cuda'\nelse:\n    device = 'cpu'\n"
    said = [
        item for item in port(script(f"{before}    {line}\n", extra=", bf16=half")).findings if item.rule == "TP526"
    ]
    assert [item.severity for item in said] == ["error"] and "half" in said[0].message


@pytest.mark.parametrize(("test", "before"), [("torch.cuda.is_available()", ""), ('device == "cuda"', DEVICE)])
@pytest.mark.parametrize("first", ["half, other = True, False", "half: bool = True"])
@pytest.mark.parametrize("second", ["half, other = False, False", "half: bool = False"])
def test_precision_of_several_names_is_the_gpu_s(test: str, before: str, first: str, second: str) -> None:
    found = port(script(f"{before}if {test}:\n    {first}\nelse:\n    {second}\n", extra=", bf16=half"))
    assert found.status == "ported" and f"if {test}" not in found.after and first in found.after


def test_an_else_that_switches_precision_off_isnt_the_port_s() -> None:
    asked = (
        "    if half and not torch.cuda.is_bf16_supported():\n        print('no')\n        half, other = False, True\n"
    )
    lines = (
        f'{DEVICE}half, other = parse(), False\nif device == "cuda":\n{asked}else:\n    half, other = False, False\n'
    )
    found = port(script(lines, extra=", bf16=half"))
    assert found.status == "ported" and 'if device == "cuda"' not in found.after


INNER = """    if torch.cuda.is_bf16_supported():
        use_bf16 = True
        print("bfloat16")
    else:
        use_fp16 = True
        print("float16")
"""
USES = ", bf16=use_bf16, fp16=use_fp16"
BEGUN = "use_bf16, use_fp16 = False, False\n"


@pytest.mark.parametrize(
    ("before", "left"),
    [
        (f"if torch.cuda.is_available():\n{INNER}", 'use_bf16 = True\nprint("bfloat16")\n'),
        (f"if torch.cuda.is_available():\n{INNER}else:\n    print('CPU')\n", 'use_bf16 = True\nprint("bfloat16")\n'),
        (
            "if torch.cuda.is_available():\n    use_bf16 = True\n    console.print('a GPU')\n",
            "use_bf16 = True\nconsole.print('a GPU')\n",
        ),
        (
            "if not torch.cuda.is_available():\n    print('CPU')\nelse:\n    use_bf16 = True\n    print('a GPU')\n",
            "use_bf16 = True\nprint('a GPU')\n",
        ),
        (
            "if sys.argv[1:] and torch.cuda.is_available():\n    use_bf16 = True\n    print('a GPU')\n",
            "if sys.argv[1:]:\n    use_bf16 = True\n    print('a GPU')\n",
        ),
        (
            "if torch.cuda.is_available():\n    kind = torch.float16\n    device = 'cuda'\nelse:\n"
            "    kind, device = torch.float32, 'cpu'\n",
            "kind = jnp.bfloat16\n",
        ),
    ],
)
def test_a_branch_that_sets_what_the_training_takes_and_says_so_is_the_gpu_s(before: str, left: str) -> None:
    """Its prints stay; torch was kept for a question that decided what nothing read, and the prints were lost."""
    text = script(BEGUN + before, extra=USES)
    text = text.replace('dtype="bfloat16")', "dtype=kind).to(device)") if "kind" in before else text
    found = port(text)
    assert f"False, False\n{left}" in found.after, found.after
    assert not any(word in found.after for word in ("torch", "CPU", '"float16"'))
    assert not [each for each in found.findings if each.rule in ("TP526", "TP001")]


@pytest.mark.parametrize(
    ("before", "severities"),
    [
        # Behind the branch the name that it binds is bound by nothing.
        (
            "if torch.cuda.is_available():\n    use_gpu = True\n    print('a GPU')\nsys.argv.append(use_gpu)\n",
            ["warning", "error"],
        ),
        ("if torch.cuda.is_available():\n    use_bf16 = True\n    sys.argv.append('x')\n", ["warning"]),
    ],
)
def test_a_branch_that_does_more_stays_and_is_named(before: str, severities: list[str]) -> None:
    found = port(script(BEGUN + before, extra=USES))
    assert "if torch.cuda.is_available():" in found.after
    assert [each.severity for each in found.findings if each.rule == "TP526"] == severities


GIVEN_BACK = """def pick(forced=None):
    if forced is not None:
        return forced
{body}
halves = {test}
"""


@pytest.mark.parametrize(
    "body",
    [
        "    return 'cuda' if torch.cuda.is_available() else 'cpu'",
        "    if torch.cuda.is_available():\n        return 'cuda'\n    return 'cpu'",
    ],
)
@pytest.mark.parametrize(("test", "decides"), [("pick(sys.argv[1]) == 'cuda'", True), ("len(rows)", False)])
def test_an_answer_that_a_function_gives_back_may_decide_a_setting(body: str, test: str, decides: bool) -> None:
    made = GIVEN_BACK.format(body=body, test=test) + "print(pick())\n"
    ported = port(sft_script(made, imports="import sys\nimport torch", config=", bf16=halves"))
    [said] = [finding for finding in ported.findings if "is False on a TPU machine" in finding.message]
    assert ("it decides halves, which the training takes" in said.message) is decides
    assert (said.severity == "error") is decides


@pytest.mark.parametrize(("names", "decides"), [("halves, rows", True), ("other, rows", False)])
def test_a_part_of_what_a_function_gives_back(names: str, decides: bool) -> None:
    made = "def pick(forced):\n    if torch.cuda.is_available():\n        return forced, [1]\n    return False, [2]\n"
    made += f"halves = True\n{names} = pick(sys.argv[1])\nprint(rows)\n"
    ported = port(sft_script(made, imports="import sys\nimport torch", config=", bf16=halves"))
    [said] = [finding for finding in ported.findings if "is False on a TPU machine" in finding.message]
    assert ("it decides halves, which the training takes" in said.message) is decides

"""torch.cuda.is_available(): what it decided on the GPU is decided, what stays is named."""

import pytest

from .gpu_scripts import HEAD, TAIL, script
from .porting import port, sft_script

DEVICE = 'device = "cuda" if torch.cuda.is_available() else "cpu"\n'


@pytest.mark.parametrize(
    ("guard", "goes"),
    [
        ('if device == "cpu" and args.quantize:\n    print("no GPU")\n    args.quantize = False\n', True),
        ('if device != "cuda":\n    half = False\n', True),
        ("if device == args.device:\n    half = False\n", False),
        ('if device == "cpu":\n    rows = 3\n', True),
    ],
)
def test_what_a_device_without_a_gpu_switches_off_stays_on(guard: str, goes: bool) -> None:
    after = port(script(f"args = sys.argv\n{DEVICE}{guard}")).after
    assert (guard in after) is not goes


@pytest.mark.parametrize(
    "guard",
    [
        'if not torch.cuda.is_available():\n    raise SystemExit("needs a GPU")\n',
        'if not torch.cuda.is_available():\n    print("no GPU")\n    sys.exit(1)\n',
        'assert torch.cuda.is_available(), "needs a GPU"\n',
        "use = True\nif not torch.cuda.is_available():\n    use = False\n",
        'if torch.cuda.is_available():\n    print(f"{sys.argv}: {torch.cuda.memory_allocated()}")\n',
        "if torch.cuda.is_available():\n    torch.cuda.empty_cache()\nelse:\n    print('no GPU')\n",
    ],
)
def test_a_guard_goes(guard: str) -> None:
    ported = port(script(guard))
    assert ported.status == "ported"
    assert "is_available" not in ported.after and "needs a GPU" not in ported.after


RETURNS = """def train():
    {tail}

def main():
    {guard}:
        print("no GPU")
        return{value}
    {call}()

main()
"""


@pytest.mark.parametrize("value", ["", " None"])
@pytest.mark.parametrize(("call", "goes"), [("train", True), ("print", False)])
def test_a_function_that_trains_doesnt_end_where_there_is_no_gpu(value: str, call: str, goes: bool) -> None:
    tail = TAIL.format(more="", folder='"out"', extra="").replace("\n", "\n    ")
    ported = port(HEAD + RETURNS.format(tail=tail, guard="if not torch.cuda.is_available()", call=call, value=value))
    assert ("return" not in ported.after) is goes
    assert any("is False on a TPU machine" in finding.message for finding in ported.findings) is not goes


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


def test_a_device_of_the_user_s_own_code_stays_and_is_named() -> None:
    ported = port(script('device = "cuda" if torch.cuda.is_available() else "cpu"\nsys.argv.append(device)\n'))
    assert 'device = "cuda" if torch.cuda.is_available() else "cpu"' in ported.after
    assert [finding.rule for finding in ported.findings if finding.severity == "warning"] == ["TP001", "TP526"]


def test_an_else_that_ends_the_run_goes() -> None:
    both = "if torch.cuda.is_available():\n    sys.argv.append('x')\nelse:\n    raise SystemExit(1)\n"
    ported = port(script(both))
    assert "if torch.cuda.is_available():\n    sys.argv.append('x')\n" in ported.after
    assert "SystemExit" not in ported.after


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


def test_a_function_that_asks_for_a_device_stays_and_is_named() -> None:
    device = "def device():\n    return 'cuda' if torch.cuda.is_available() else 'cpu'\n\n\nprint(device())\n"
    ported = port(script(device))
    assert "torch.cuda.is_available()" in ported.after
    assert [finding for finding in ported.findings if finding.rule == "TP526"]


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


def test_a_place_stays_as_it_is() -> None:
    asked = "if torch.cuda.is_available():\n    place = torch.device(0)\nelse:\n    place = 0\nsys.argv.append(place)\n"
    ported = port(script(asked))
    assert "torch.cuda.is_available()" in ported.after
    assert any("is False on a TPU machine" in finding.message for finding in ported.findings)


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


def test_a_complaint_and_what_tells_of_the_gpu_go_together() -> None:
    asked = "if not torch.cuda.is_available():\n    print('no GPU')\nelse:\n    print(torch.cuda.get_device_name(0))\n"
    found = port(sft_script(asked, imports="import torch"))
    assert found.status == "ported" and "torch" not in found.after and "no GPU" not in found.after
    kept = asked.replace("print('no GPU')", "prepare()")
    assert "prepare()" in port(sft_script(kept, imports="import torch")).after


@pytest.mark.parametrize(
    ("lines", "goes"),
    [
        ("print('CUDA', torch.version.cuda)", True),
        ("print(f'cuDNN {torch.backends.cudnn.version()}, torch {torch.__version__}')", True),
        (
            "if torch.cuda.is_available():\n    props = torch.cuda.get_device_properties(0)\n"
            "    print(props.name)\n    print(torch.__version__, torch.version.cuda)\nelse:\n    print('no GPU')",
            True,
        ),
        ("print(torch.version.cuda, len(rows))", False),
        ("if torch.cuda.is_available():\n    here = torch.cuda.current_device()\n    use(here)", False),
    ],
)
def test_what_tells_which_cuda_torch_is_for_goes(lines: str, goes: bool) -> None:
    """Such a block stayed as `if torch.cuda.is_available(): ...`, and the port needed torch for it."""
    found = port(sft_script(f"rows = []\n{lines}", imports="import torch\nfrom mine import use"))
    assert ("torch" not in found.after) is goes, found.after
    assert not goes or (found.status == "ported" and "no GPU" not in found.after)


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
            "kwargs = {}\nm",
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
    ("before", "names"),
    [
        (
            "if torch.cuda.is_available():\n    device = 'cuda'\n    kind = torch.float16\nelse:\n    device = 'cpu'\n"
            f"    kind = torch.float32\n{LOAD}torch_dtype=kind).to(device)\n",
            "",
        ),
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


def test_a_function_that_says_whether_there_is_a_gpu_says_what_it_said_there() -> None:
    before = "def check():\n    if torch.cuda.is_available():\n        print(torch.cuda.get_device_name(0))\n"
    before += "        print('ready')\n        return True\n    else:\n        print('none')\n        return False\n\n"
    after = port(script(f"{before}if not check():\n    sys.exit(1)\n")).after
    assert "def check():\n    print('ready')\n    return True\n" in after


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

"""Types and switches that hang on a GPU through an attribute, a dict, a parameter, a function or a branch."""

import pytest

from .porting import port, sft_script

AVAILABLE = "torch.cuda.is_available()"
TYPE = f"torch.bfloat16 if {AVAILABLE} else torch.float32"
BY_DEVICE = "torch.bfloat16 if {} == 'cuda' else torch.float32"
DEVICE = f"'cuda' if {AVAILABLE} else 'cpu'"


def loaded(before: str, dtype: str, config: str = "") -> str:
    """A script that loads its model in a type."""
    text = sft_script(before, imports="import sys\nimport torch", config=config)
    return text.replace('dtype="bfloat16"', f"dtype={dtype}")


@pytest.mark.parametrize(
    ("before", "dtype", "left"),
    [
        (f"class C:\n    dtype = {TYPE}\n", "C.dtype", "class C:\n    dtype = jnp.bfloat16\n"),
        (f"class C:\n    dtype = {TYPE}\ncfg = C()\n", "cfg.dtype", "    dtype = jnp.bfloat16\ncfg = C()\n"),
        (
            f"class C:\n    device = {DEVICE}\n    def __init__(self):\n"
            f"        self.dtype = {BY_DEVICE.format('self.device')}\ncfg = C()\n",
            "cfg.dtype",
            "        self.dtype = jnp.bfloat16\n",
        ),
        (
            "from dataclasses import dataclass, field\n@dataclass\nclass C:\n    lr: float = 1e-4\n"
            f"    dtype: object = field(default_factory=lambda: {TYPE})\ncfg = C()\n",
            "cfg.dtype",
            "    dtype: object = field(default_factory=lambda: jnp.bfloat16)\n",
        ),
        (f"def pick():\n    return {TYPE}\n", "pick()", ""),
        (
            f"def pick():\n    if {AVAILABLE}:\n        if torch.cuda.is_bf16_supported():\n"
            "            return torch.bfloat16\n        return torch.float16\n    return torch.float32\n",
            "pick()",
            "",
        ),
        (
            "def pick(device):\n    if device == 'cuda':\n        return torch.bfloat16\n    return torch.float32\n"
            f"device = {DEVICE}\nsys.argv.append(pick(device))\n",
            "pick(device)",
            "def pick(device):\n    return jnp.bfloat16\n",
        ),
        (
            f"device = torch.device({DEVICE})\ndef pick(device):\n"
            f"    dtype = {BY_DEVICE.format('device.type')}\n    return dtype\n",
            "pick(device)",
            "",
        ),
        (
            f"def both():\n    half = {AVAILABLE} and torch.cuda.is_bf16_supported()\n"
            "    return torch.bfloat16 if half else torch.float32, half\ndtype, half = both()\nsys.argv.append(half)\n",
            "dtype",
            "    half = True\n    return jnp.bfloat16, half\n",
        ),
        (
            f"def both():\n    if {AVAILABLE}:\n        return torch.device('cuda'), torch.bfloat16\n"
            "    return torch.device('cpu'), torch.float32\ndevice, dtype = both()\nsys.argv += [device, dtype]\n",
            "dtype",
            "    return torch.device('cpu'), jnp.bfloat16\n",
        ),
        (
            f"TYPES = {{'cuda': torch.bfloat16, 'mps': torch.float16}}\ndevice = {DEVICE}\n",
            "TYPES.get(device, torch.float32)",
            "",
        ),
        (
            f"device = {DEVICE}\ndtype = {BY_DEVICE.format('device').replace('torch.float32', '')}"
            "torch.float16 if device == 'mps' else torch.float32\nsys.argv.append(dtype)\n",
            "dtype",
            "dtype = jnp.bfloat16\n",
        ),
        (
            f"class P:\n    @property\n    def dtype(self):\n        return {TYPE}\np = P()\n",
            "p.dtype",
            "        return jnp.bfloat16\n",
        ),
    ],
)
def test_what_holds_a_type_has_the_gpu_s(before: str, dtype: str, left: str) -> None:
    ported = port(loaded(before, dtype))
    assert "rt.load_model(" in ported.after and "mesh, dtype=jnp.bfloat16)" in ported.after, ported.after
    assert left in ported.after, ported.after
    assert ported.status == "ported" and "float32" not in ported.after


@pytest.mark.parametrize("test", [f"if {AVAILABLE}", f"if torch.backends.mps.is_available():\n    X\nelif {AVAILABLE}"])
def test_each_branch_gives_the_gpu_s_type_where_it_says_a_device_too(test: str) -> None:
    test = test.replace("X", "device, dtype = 'mps', torch.float16")
    before = f"{test}:\n    device, dtype = 'cuda', torch.bfloat16\nelse:\n    device, dtype = 'cpu', torch.float32\n"
    ported = port(loaded(f"{before}sys.argv += [device, dtype]\n", "dtype", ", bf16=device == 'cuda'"))
    assert "mesh, dtype=jnp.bfloat16)" in ported.after
    assert "    device, dtype = 'cpu', jnp.bfloat16\n" in ported.after and "float32" not in ported.after
    assert [finding.severity for finding in ported.findings if finding.rule == "TP526"] == ["warning"]


def test_what_stands_before_a_branch_is_the_gpu_s_type_too() -> None:
    before = (
        f"device = 'cpu'\ndtype = torch.float32\nif {AVAILABLE}:\n    device = 'cuda'\n    dtype = torch.bfloat16\n"
    )
    ported = port(loaded(f"{before}sys.argv += [device, dtype]\n", "dtype"))
    assert "device = 'cpu'\ndtype = jnp.bfloat16\nif torch" in ported.after
    config = "def settings():\n    found = {'device': 'cpu', 'dtype': torch.float32, 'bf16': False}\n"
    config += f"    if {AVAILABLE}:\n        found['device'] = 'cuda'\n        found['dtype'] = torch.bfloat16\n"
    config += "        found['bf16'] = True\n    return found\ncfg = settings()\n"
    ported = port(loaded(config, "cfg['dtype']", ", bf16=cfg['bf16']"))
    assert "found = {'device': 'cpu', 'dtype': jnp.bfloat16, 'bf16': True}\n" in ported.after


@pytest.mark.parametrize(
    ("before", "left"),
    [
        (f"cfg = {{'bf16': {AVAILABLE}, 'lr': 1e-4}}\nsys.argv.append(cfg)\n", "cfg = {'bf16': True, 'lr': 1e-4}\n"),
        (f"class C:\n    fp16 = not {AVAILABLE}\nsys.argv.append(C.fp16)\n", "    fp16 = False\n"),
        (f"class C:\n    fp16: bool = {AVAILABLE}\nsys.argv.append(C)\n", "    fp16: bool = True\n"),
        (
            f"class C:\n    def __init__(self, args):\n        self.fp16 = args.fp16 and {AVAILABLE}\n",
            "        self.fp16 = args.fp16\n",
        ),
        (
            "import argparse\nparser = argparse.ArgumentParser()\n"
            f"parser.add_argument('--bf16', type=bool, default={AVAILABLE})\nargs = parser.parse_args()\n",
            "parser.add_argument('--bf16', type=bool, default=True)\n",
        ),
        (f"ready = {AVAILABLE} and torch.cuda.is_bf16_supported()\nsys.argv.append(ready)\n", "ready = True\n"),
    ],
)
def test_a_switch_is_what_it_was_on_the_gpu_wherever_it_is_held(before: str, left: str) -> None:
    ported = port(loaded(before, "'bfloat16'"))
    assert left in ported.after, ported.after
    assert "torch.cuda" not in ported.after and not [each for each in ported.findings if each.rule == "TP526"]


@pytest.mark.parametrize(
    ("imports", "asks"),
    [
        ("from transformers.utils import is_torch_bf16_gpu_available", "is_torch_bf16_gpu_available()"),
        ("from transformers.utils.import_utils import is_torch_cuda_available", "is_torch_cuda_available()"),
        ("from accelerate.utils import is_cuda_available", "is_cuda_available()"),
        ("from accelerate import Accelerator\naccelerator = Accelerator()", "accelerator.device.type == 'cuda'"),
        ("from unsloth import is_bfloat16_supported", "is_bfloat16_supported()"),
        ("", "torch.version.cuda is not None"),
        ("", "torch.cuda.is_bf16_supported(including_emulation=False)"),
    ],
)
def test_other_questions_for_a_gpu_are_answered_alike(imports: str, asks: str) -> None:
    ported = port(loaded(f"{imports}\n", f"torch.bfloat16 if {asks} else torch.float32"))
    assert "mesh, dtype=jnp.bfloat16)" in ported.after and asks.split("(")[0].split()[0] not in ported.after
    held = port(
        loaded(f"{imports}\nclass C:\n    bf16 = True if {asks} else False\nsys.argv.append(C.bf16)\n", "'bfloat16'")
    )
    assert "    bf16 = True\n" in held.after


@pytest.mark.parametrize("part", ["mixed_precision", "state"])
def test_of_an_accelerator_the_device_alone_is_on_a_gpu(part: str) -> None:
    before = "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    test = f"accelerator.{part}.type == 'cuda'"
    assert test in port(loaded(before, f"torch.bfloat16 if {test} else torch.float32")).after


def test_torch_was_built_for_cuda() -> None:
    assert "jnp.bfloat16)" in port(loaded("", "torch.bfloat16 if torch.version.cuda else torch.float32")).after
    named = port(
        loaded("name = f'cuda {torch.version.cuda}'\n", "'bfloat16'", ", run_name=name").replace('"none"', "'wandb'")
    )
    assert "cuda True" not in named.after and "name = f'cuda {torch.version.cuda}'" in named.after


def test_a_question_of_another_library_that_is_left_is_named() -> None:
    before = "from accelerate.utils import is_cuda_available\nsys.argv.append(is_cuda_available())\n"
    (said,) = [each for each in port(loaded(before, "'bfloat16'")).findings if each.rule == "TP526"]
    assert said.message.startswith("is_cuda_available() is False on a TPU machine")


@pytest.mark.parametrize("test", [AVAILABLE, "device == 'cuda'"])
def test_numbers_that_a_function_gives_back_are_the_gpu_s(test: str) -> None:
    before = f"device = {DEVICE}\ndef steps():\n    if {test}:\n        return 1000\n    return 10\n"
    ported = port(loaded(f"{before}sys.argv.append(device)\n", "'bfloat16'", ", save_steps=steps()"))
    assert "def steps():\n    return 1000\n" in ported.after


@pytest.mark.parametrize(
    "before",
    [
        # two values, an object that a parser fills, one that is given its own, a subclass's, other callers, an end
        f"class C:\n    dtype = {TYPE}\ncfg = C()\ncfg.dtype = sys.argv[1]\n",
        f"from transformers import HfArgumentParser\nclass C:\n    dtype: str = {TYPE}\n"
        "cfg, = HfArgumentParser(C).parse_args_into_dataclasses()\n",
        f"class C:\n    dtype = {TYPE}\n    def __init__(self, dtype):\n        vars(self).update(dtype=dtype)\n"
        "cfg = C(sys.argv[1])\n",
        f"from dataclasses import dataclass\n@dataclass\nclass C:\n    dtype: object = {TYPE}\n"
        "cfg = C(dtype=sys.argv[1])\n",
        f"class C:\n    def __init__(self):\n        self.dtype = {TYPE}\ncfg = C()\n"
        "setattr(cfg, 'dtype', sys.argv[1])\n",
        f"class C:\n    dtype = {TYPE}\nclass D(C):\n    dtype = 'float32'\ncfg = D()\n",
        f"def pick(device):\n    return {BY_DEVICE.format('device')}\npick('cpu')\n"
        f"class C:\n    def __init__(self):\n        self.dtype = pick({DEVICE})\ncfg = C()\n",
        # a class that is made elsewhere, too: by a class of its kind, and under another name
        f"class C:\n    def __init__(self, at):\n        self.dtype = {BY_DEVICE.format('at')}\n"
        f"class D(C):\n    def __init__(self):\n        super().__init__('cpu')\nother, cfg = D(), C({DEVICE})\n",
        f"class C:\n    def __init__(self, at):\n        self.dtype = {BY_DEVICE.format('at')}\n"
        f"def made(kind):\n    return kind('cpu')\nother, cfg = made(C), C({DEVICE})\n",
        f"def pick(device):\n    return {BY_DEVICE.format('device')}\nsys.argv.append(pick)\n"
        f"class C:\n    def __init__(self):\n        self.dtype = pick({DEVICE})\ncfg = C()\n",
        f"def pick():\n    if {AVAILABLE}:\n        raise SystemExit\n    return torch.float32\n"
        "class C:\n    def __init__(self):\n        self.dtype = pick()\ncfg = C()\n",
    ],
)
def test_what_may_hold_something_else_is_left_to_the_run(before: str) -> None:
    assert "dtype=cfg.dtype)" in port(loaded(before, "cfg.dtype")).after


def test_a_type_is_known_where_a_later_branch_that_never_runs_gives_another() -> None:
    before = f"dtype = torch.float32\nif {AVAILABLE}:\n    dtype = torch.bfloat16\n"
    after = f"if not {AVAILABLE}:\n    dtype = None\n    print(dtype)\n"
    ported = port(loaded(before, "dtype") + after)
    assert "mesh, dtype=jnp.bfloat16)" in ported.after, ported.after


@pytest.mark.parametrize(
    ("before", "left"),
    [
        (f"cfg = {{'gpu': {AVAILABLE}}}\nsys.argv.append(cfg)\n", f"cfg = {{'gpu': {AVAILABLE}}}\n"),
        (
            f"class C:\n    device = {DEVICE}\n"
            "place = 'cuda:0' if C.device == 'cuda' else 'cpu'\nsys.argv.append(place)\n",
            "place = 'cuda:0' if C.device == 'cuda' else 'cpu'\n",
        ),
        (
            f"if {AVAILABLE}:\n    device, loud, bf16 = 'cuda', True, True\nelse:\n"
            "    device, loud, bf16 = 'cpu', False, False\nsys.argv += [device, loud, bf16]\n",
            "    device, loud, bf16 = 'cpu', False, True\n",
        ),
        (
            "def pick(device):\n    if device == 'cuda':\n        dtype = torch.bfloat16\n    else:\n"
            f"        dtype = torch.float32\n    return dtype\ndevice = {DEVICE}\nsys.argv += [pick(device), device]\n",
            "    dtype = jnp.bfloat16\n    return dtype\n",
        ),
    ],
)
def test_what_is_no_precision_stays_a_question(before: str, left: str) -> None:
    ported = port(loaded(before, "'bfloat16'"))
    assert left in ported.after, ported.after


def test_an_option_whose_default_decides_the_type_is_an_error() -> None:
    before = "import argparse\nparser = argparse.ArgumentParser()\n"
    before += f"parser.add_argument('--device', default={DEVICE})\nargs = parser.parse_args()\n"
    ported = port(loaded(f"{before}dtype = {BY_DEVICE.format('args.device')}\n", "dtype"))
    (said,) = [finding for finding in ported.findings if finding.rule == "TP526"]
    assert said.severity == "error" and "it decides dtype, which" in said.message
    named = port(loaded(f"{before}sys.argv.append(args.device)\n", "'bfloat16'"))
    assert not [finding for finding in named.findings if finding.rule == "TP526" and finding.severity == "error"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (f"torch.bfloat16 if {AVAILABLE} else torch.float32", "bfloat16"),
        ("torch.float16 if not torch.cuda.is_bf16_supported() else torch.bfloat16", "bfloat16"),
    ],
)
def test_a_choice_in_a_load_that_stays_torch_s_is_a_type_that_torch_takes(kind: str, name: str) -> None:
    again = f"again = AutoModelForCausalLM.from_pretrained('some/model', torch_dtype={kind})\nagain.other()\n"
    text = loaded("", kind) + again
    ported = port(text)
    assert f"AutoModelForCausalLM.from_pretrained('some/model', torch_dtype=\"{name}\")" in ported.after, ported.after
    assert "mesh, dtype=jnp.bfloat16)" in ported.after


@pytest.mark.parametrize(
    ("bound", "stays"),
    [(f"if {AVAILABLE}:\n    size = torch.cuda.mem_get_info()[1]", True), ("size = len(sys.argv)", False)],
)
def test_a_choice_of_what_only_a_gpu_gave_stays(bound: str, stays: bool) -> None:
    """On a TPU machine the name has no value: the port ended behind its training, before it saved."""
    text = sft_script(f"{bound}\n", imports="import sys\nimport torch", after="trainer.train()\n")
    share = f"share = 100 / size if {AVAILABLE} else 0\nsys.argv.append(share)\ntrainer.save_model('out/last')\n"
    ported = port(f"{text}{share}")
    assert (f"share = 100 / size if {AVAILABLE} else 0" in ported.after) is stays, ported.after
    assert ported.status == "ported"

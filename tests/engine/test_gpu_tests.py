"""torch.cuda.is_available() that guards a run or tells of its GPU goes; what places something stays and is named."""

from __future__ import annotations

import pytest

from .gpu_scripts import DEVICE, HEAD, TAIL, script
from .porting import port, sft_script


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


ASKS = (
    "    print('slow')\n    answer = input('Go on? ').strip()\n    if answer.lower() != 'yes':\n        sys.exit(1)\n"
)


@pytest.mark.parametrize(
    ("guard", "left"),
    [
        (f"if not torch.cuda.is_available():\n{ASKS}", ""),
        (f"if not torch.cuda.is_available():\n{ASKS}else:\n    print(sys.argv)\n", "\nprint(sys.argv)\n"),
        (f"if torch.cuda.is_available():\n    print(sys.argv)\nelse:\n{ASKS}", "    print(sys.argv)\n"),
        ("if not torch.cuda.is_available():\n    input('Press Enter to go on')\n", ""),
        (f"device = 'cuda' if torch.cuda.is_available() else 'cpu'\nif device == 'cpu':\n{ASKS}", ""),
        (f"has = torch.cuda.is_available()\nif not has:\n{ASKS}else:\n    print(sys.argv)\n", "\nprint(sys.argv)\n"),
    ],
)
def test_a_guard_that_asks_goes(guard: str, left: str) -> None:
    ported = port(script(guard))
    assert ported.status == "ported" and left in ported.after
    assert "input(" not in ported.after and "exit" not in ported.after


@pytest.mark.parametrize(
    "guard",
    [
        "if not torch.cuda.is_available():\n    sys.argv.append('x')\n    sys.exit(1)\n",
        f"if not torch.cuda.is_available():\n{ASKS}    sys.argv.append(answer)\n",
        f"if not torch.cuda.is_available():\n{ASKS}sys.argv.append(answer)\n",
        "if torch.cuda.is_available():\n    sys.argv.append('x')\nelse:\n    sys.argv.clear()\n    raise OSError\n",
        "torch.cuda.is_available() or sys.exit(1)\n",
        "has = torch.cuda.is_available()\nif not has:\n    sys.argv.append('x')\n    sys.exit(1)\n",
        f"{DEVICE}if torch.device(device).type != 'cuda':\n    sys.argv.append('x')\n    sys.exit(1)\n",
    ],
)
def test_a_guard_that_does_more_is_an_error(guard: str) -> None:
    """It was a warning to check what the question decides: it ends the port, or waits for somebody."""
    errors = [finding for finding in port(script(guard)).findings if finding.severity == "error"]
    assert [finding.rule for finding in errors] == ["TP526"] and "the port ends here" in errors[0].message


def test_a_guard_that_the_port_never_comes_to_is_no_error() -> None:
    guard = (
        "def check():\n    if not torch.cuda.is_available():\n        sys.argv.append('x')\n        sys.exit(1)\n\n\n"
    )
    assert not [finding for finding in port(script(guard)).findings if finding.severity == "error"]


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


def test_a_device_of_the_user_s_own_code_stays_and_is_named() -> None:
    ported = port(script('device = "cuda" if torch.cuda.is_available() else "cpu"\nsys.argv.append(device)\n'))
    assert 'device = "cuda" if torch.cuda.is_available() else "cpu"' in ported.after
    assert [finding.rule for finding in ported.findings if finding.severity == "warning"] == ["TP001", "TP526"]


def test_an_else_that_ends_the_run_goes() -> None:
    both = "if torch.cuda.is_available():\n    sys.argv.append('x')\nelse:\n    raise SystemExit(1)\n"
    ported = port(script(both))
    assert "if torch.cuda.is_available():\n    sys.argv.append('x')\n" in ported.after
    assert "SystemExit" not in ported.after


def test_a_function_that_asks_for_a_device_stays_and_is_named() -> None:
    device = "def device():\n    return 'cuda' if torch.cuda.is_available() else 'cpu'\n\n\nprint(device())\n"
    ported = port(script(device))
    assert "torch.cuda.is_available()" in ported.after
    assert [finding for finding in ported.findings if finding.rule == "TP526"]


def test_a_place_stays_as_it_is() -> None:
    asked = "if torch.cuda.is_available():\n    place = torch.device(0)\nelse:\n    place = 0\nsys.argv.append(place)\n"
    ported = port(script(asked))
    assert "torch.cuda.is_available()" in ported.after
    (said,) = [finding for finding in ported.findings if "is False on a TPU machine" in finding.message]
    assert said.severity == "error" or ("goes on as without a GPU" in said.message and "training takes" in said.fix)


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


def test_a_function_that_says_whether_there_is_a_gpu_says_what_it_said_there() -> None:
    before = "def check():\n    if torch.cuda.is_available():\n        print(torch.cuda.get_device_name(0))\n"
    before += "        print('ready')\n        return True\n    else:\n        print('none')\n        return False\n\n"
    after = port(script(f"{before}if not check():\n    sys.exit(1)\n")).after
    assert "def check():\n    print('ready')\n    return True\n" in after

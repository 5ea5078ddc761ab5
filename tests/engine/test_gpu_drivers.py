"""NVML's packages and nvidia-smi: a TPU machine has no driver of NVIDIA's to ask."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from tests.notebooks import cell, saved

from .porting import port, sft_script

TOLD = """\
def print_gpu():
    nvmlInit()
    handle = nvmlDeviceGetHandleByIndex(0)
    info = nvmlDeviceGetMemoryInfo(handle)
    print(f"GPU memory occupied: {info.used // 1024**2} MB.")
    nvmlShutdown()


print_gpu()"""
PRINTS = """\
print(subprocess.check_output(["nvidia-smi"]).decode())
asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
print(asked.stdout)"""


def said(before: str, imports: str) -> list[tuple[str, int]]:
    ported = port(sft_script(before, imports=f"{imports}\nimport sys"))
    found = [(each.message, each.line) for each in ported.findings if each.rule == "TP539"]
    assert (ported.status == "partial") is bool(found)
    return found


@pytest.mark.parametrize(
    ("before", "imports", "gone"),
    [
        (TOLD, "from pynvml import *", ("pynvml", "nvmlInit", "handle", "occupied")),
        (TOLD.replace("nvml", "pynvml.nvml"), "import pynvml", ("pynvml", "occupied")),
        (
            TOLD,
            "from pynvml import nvmlInit, nvmlShutdown, nvmlDeviceGetHandleByIndex, nvmlDeviceGetMemoryInfo",
            ("nvml",),
        ),
        ("GPUtil.showUtilization()", "import GPUtil", ("GPUtil",)),
        ("import pynvml", "import os", ("pynvml",)),
        (PRINTS, "import subprocess", ("nvidia", "asked", "import subprocess")),
    ],
)
def test_what_only_tells_of_it_goes(before: str, imports: str, gone: tuple[str, ...]) -> None:
    ported = port(sft_script(before, imports=imports))
    assert ported.status == "ported" and not [word for word in gone if word in ported.after]
    assert [each.message for each in ported.findings if each.rule == "TP539"] == []


@pytest.mark.parametrize(
    ("before", "imports", "line"),
    [
        (
            "free = nvmlDeviceGetMemoryInfo(nvmlDeviceGetHandleByIndex(0)).free\nsys.argv.append(free)",
            "from pynvml import *",
            1,
        ),
        ("sys.argv += GPUtil.getAvailable()", "import GPUtil", 1),
        ("sys.argv += subprocess.check_output(['nvidia-smi']).split()", "import subprocess", 0),
        ("COMMAND = ['nvidia-smi', '-L']\nsys.argv.append(subprocess.run(COMMAND))", "import subprocess", 0),
        ("sys.argv.append(subprocess.run('nvidia-smi -L', shell=True, check=True))", "import subprocess", 0),
    ],
)
def test_what_ends_the_port_is_an_error(before: str, imports: str, line: int) -> None:
    ((message, place),) = said(before, imports)
    assert "the port ends here" in message and (place == 1) is bool(line)


@pytest.mark.parametrize(
    ("before", "imports"),
    [
        (
            "if HAS:\n    print(pynvml.nvmlDeviceGetCount())",
            "try:\n    import pynvml\n    HAS = True\nexcept ImportError:\n    HAS = False",
        ),
        ("def free():\n    import pynvml\n\n    return pynvml.nvmlDeviceGetCount()", "import os"),
        (
            "try:\n    sys.argv += subprocess.check_output(['nvidia-smi'])\nexcept OSError:\n    pass",
            "import subprocess",
        ),
        ("sys.argv.append(subprocess.run('nvidia-smi', shell=True))", "import subprocess"),
        ("sys.argv += subprocess.check_output(['ls'])", "import subprocess"),
        ("nvmlInit = len\nsys.argv.append(nvmlInit([]))", "import os"),
    ],
)
def test_what_goes_on_without_one_stays(before: str, imports: str) -> None:
    assert said(before, imports) == []
    assert before in port(sft_script(before, imports=f"{imports}\nimport sys")).after


LOGS = """\
def say(*args, **kwargs):
    print(*args, **kwargs)
    with open("train.log", "a") as file:
        print(*args, **kwargs, file=file)


def watch():
    if torch.cuda.is_available():
        held = torch.cuda.memory_allocated() / 1024**3
        gpus = GPUtil.getGPUs()
        used = (gpus[0].memoryUtil * 100) if gpus else 0
        say(f"{held:.1f} GB, {used:.1f} %")


watch()"""


def test_what_a_function_of_the_script_prints_of_a_gpu_goes() -> None:
    imports = "import GPUtil\nimport torch"
    found = port(sft_script(LOGS, imports=imports, between="say(f'{type(model)}')"))
    assert found.status == "ported" and not re.search(r"\b(GPUtil|torch|held|used)\b", found.after)
    assert "say(f'{type(model)}')\n" in found.after
    more = LOGS.replace("    print(*args, **kwargs)\n", "    print(*args, **kwargs)\n    count(args)\n")
    assert "GPUtil" in port(sft_script(more, imports=imports)).after  # it does more than print


@pytest.mark.parametrize(
    "line",
    [
        "copied = rows.save_to_disk('copy')",
        "print(rows.save_to_disk('copy'))",
        "seen['said'] = args",
        "if args:\n        print(args)\n    else:\n        seen['said'] = ''",
        "kept = filter(args)",  # the script's own
    ],
)
def test_a_function_that_does_more_than_print_stays_where_it_is_called(line: str) -> None:
    logs = LOGS.replace("    print(*args, **kwargs)\n", f"    {line}\n    print(*args, **kwargs)\n")
    logs = f"def filter(rows):\n    seen['kept'] = rows\n\n\nseen = {{}}\n{logs}"
    assert "say(f" in port(sft_script(logs, imports="import GPUtil\nimport torch")).after
    traced = LOGS.replace("def say", "@traced\ndef say")
    assert "say(f" in port(sft_script(traced, imports="import GPUtil\nimport torch")).after
    stamped = LOGS.replace("    print(*args, **kwargs)\n", "    at = str(time.time()).upper()\n    print(at, *args)\n")
    found = port(sft_script(stamped, imports="import time\nimport GPUtil\nimport torch"))
    assert found.status == "ported" and "GPUtil" not in found.after


def test_a_command_that_a_try_with_the_training_starts_is_an_error() -> None:
    lines = sft_script("sys.argv += subprocess.check_output(['nvidia-smi'])", imports="import subprocess, sys")
    body = lines.replace("\n", "\n    ")
    ported = port(f"try:\n    {body}\nexcept Exception as error:\n    print(error)\n")
    assert [finding.rule for finding in ported.findings if finding.severity == "error"] == ["TP539"]


@pytest.mark.parametrize(
    ("line", "gone"),
    [
        ("!nvidia-smi", True),
        ("! nvidia-smi -L", True),
        ("!nvidia-smi | head -5", False),
        ("found = !nvidia-smi", False),
        ("!nvidia-smi-mine", False),
    ],
)
def test_a_cell_shows_no_driver(tmp_path: Path, line: str, gone: bool) -> None:
    path = saved(tmp_path / "train.ipynb", cell(f"# which GPU\n{line}\nprint(1)"), cell(sft_script("")))
    assert ("nvidia-smi" not in port_file(path).after) is gone


UNUSED = """\
def held():
    \"\"\"In bytes.\"\"\"
    return nv.nvmlDeviceGetMemoryInfo(nv.nvmlDeviceGetHandleByIndex(0)).used


def count():
    return nvmlDeviceGetCount()


"""
UNUSED_IMPORTS = "import pynvml as nv\nfrom pynvml import nvmlDeviceGetCount, nvmlInit"


def test_an_import_for_functions_that_the_script_does_not_come_to_goes_there() -> None:
    found = port(sft_script(UNUSED, imports=UNUSED_IMPORTS))
    assert found.status == "ported" and "nvmlInit" not in found.after
    assert '    """In bytes."""\n    import pynvml as nv\n    return nv.' in found.after
    assert "def count():\n    from pynvml import nvmlDeviceGetCount\n    return" in found.after
    assert not re.search(r"(?m)^(import|from) pynvml", found.after)


@pytest.mark.parametrize("use", ["sys.argv.append(count())", "sys.argv.append(count)", "COUNT = nvmlDeviceGetCount"])
def test_an_import_that_the_script_comes_to_stays_an_error(use: str) -> None:
    ((message, line),) = said(UNUSED + use, UNUSED_IMPORTS)
    assert message.startswith("from pynvml import nvmlDeviceGetCount") and line == 2

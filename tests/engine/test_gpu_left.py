"""Calls that raise without a GPU: named where the port comes to them, and nowhere else."""

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_module

from .porting import port, sft_script


def said(before: str, after: str = "trainer.train()") -> list[str]:
    ported = port(sft_script(before, imports="import sys\nimport torch", after=after))
    return [
        finding.message
        for finding in ported.findings
        if finding.rule == "TP536" and finding.severity == "error" and ported.status != "ported"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.init()",
        "name = [torch.cuda.get_device_name(0), sys.argv]",
        "with torch.cuda.device(0):\n    sys.argv.append('x')",
        "def ready():\n    sys.argv.append(torch.cuda.get_device_name())\n\n\nready()",
        "try:\n    torch.cuda.init()\nexcept RuntimeError:\n    raise",
        "if len(sys.argv) > 1:\n    torch.cuda.init()",
        "def ready():\n    gpus = int(torch.cuda.device_count())\n    if gpus != 1:\n        raise SystemExit\n"
        "    torch.cuda.init()\n\n\nready()",
        "def ready(torch):\n    torch.cuda.init()\n\n\nready(torch)",
        "for i in range(torch.cuda.device_count()):\n    sys.argv.append(torch.cuda.get_device_name(i))",
    ],
)
def test_a_call_that_ends_the_port_is_an_error(line: str) -> None:
    (message,) = said(line)
    assert "needs a GPU, and the port comes here" in message and "\n" not in message


@pytest.mark.parametrize(
    "line",
    [
        "if torch.cuda.is_available():\n    sys.argv.append(torch.cuda.get_device_name(0))",
        "use_gpu = len(sys.argv) > 1\nif use_gpu:\n    torch.zeros(8).cuda()",
        "name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else 'none'\nsys.argv.append(name)",
        "ready = torch.cuda.is_available() and torch.cuda.current_device() == 0\nsys.argv.append(ready)",
        "try:\n    torch.cuda.init()\nexcept Exception:\n    pass",
        "for i in range(torch.cuda.device_count()):\n    print(f'{i}:', i, torch.cuda.get_device_name(i))\n"
        "    part = torch.cuda.get_device_properties(i)\n    print(part.total_memory)",
        "def never():\n    torch.cuda.init()",
        "if False:\n    torch.cuda.init()",
        "def name():\n    if not torch.cuda.is_available():\n        return 'none'\n"
        "    return torch.cuda.get_device_name(0)\n\n\nsys.argv.append(name())",
        "place = 'cuda' if torch.cuda.is_available() else 'cpu'\nscores = torch.zeros(8, device=place)",
        "torch.cuda.empty_cache()\nsys.argv.append(torch.cuda.memory_allocated())",
    ],
)
def test_what_is_kept_from_running_is_none(line: str) -> None:
    assert said(line) == []


NAME = "    for i in range(torch.cuda.device_count()):\n        sys.argv.append(torch.cuda.get_device_properties(i))\n"


@pytest.mark.parametrize(
    ("held", "test", "left"),
    [
        ("there = torch.cuda.is_available()", "not there", True),
        ("info = {'there': torch.cuda.is_available(), 'n': 0}", "not info['there']", True),
        ("info = {'there': torch.cuda.is_available()}\n    info['n'] = 2", "not info['there'] or sys.argv", True),
        ("there = torch.cuda.is_available()", "there", False),
        ("there = torch.cuda.is_available()", "not there and len(sys.argv) > 1", False),
        ("there = len(sys.argv) > 1", "not there", False),
        ("info = {'there': torch.cuda.is_available()}\n    info['there'] = 1", "not info['there']", False),
        ("info = {'there': torch.cuda.is_available()}\n    info.update(there=1)", "not info['there']", False),
        ("info = {'there': torch.cuda.is_available(), 'n': sys.argv}", "not info['n']", False),
    ],
)
def test_a_guard_that_a_name_or_a_dictionary_holds_is_read(held: str, test: str, left: bool) -> None:
    assert bool(said(f"def look():\n    {held}\n    if {test}:\n        return\n{NAME}\n\nlook()")) is not left
    inner = NAME.replace("    ", "        ", 1).replace("\n        ", "\n            ")
    way = test.removeprefix("not ") if test.startswith("not ") and " " not in test[4:] else f"not ({test})"
    assert bool(said(f"def look():\n    {held}\n    if {way}:\n{inner}\n\nlook()")) is not left


TRIED = "    try:\n        torch.cuda.init()\n    except Exception:\n        return\n"
HANDLER = "except Exception as error:\n    print(error)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"try:\n    torch.cuda.init()\n    train()\n{HANDLER}\n", 1),
        (f"try:\n    torch.cuda.init()\n{HANDLER}\nelse:\n    train()\n", 1),
        (f"def ready():\n    torch.cuda.init()\n\n\ntry:\n    ready()\n    train()\n{HANDLER}\n", 1),
        (f"def main():\n    torch.cuda.init()\n    train()\n\n\ntry:\n    main()\n{HANDLER}\n", 1),
        (f"def main():\n{TRIED}    train()\n\n\nmain()\n", 1),
        (f"try:\n    torch.cuda.init()\n{HANDLER}\ntrain()\n", 0),
        (f"try:\n    torch.cuda.init()\n    print(1)\n{HANDLER}\ntry:\n    train()\n{HANDLER}\n", 0),
        (f"def main():\n    train()\n{TRIED}\n\nmain()\n", 0),
    ],
)
def test_what_ends_the_training_within_a_try_is_an_error(text: str, found: int) -> None:
    """A handler that says what was raised and goes on: nothing trained, and nothing was said of it."""
    trained = sft_script("", imports="").replace("\n", "\n    ")
    ported = port(f"import torch\n\n\ndef train():\n    {trained}\n\n\n{text}")
    errors = [finding.message for finding in ported.findings if finding.severity == "error"]
    assert len(errors) == found and all("torch.cuda.init() needs a GPU" in message for message in errors)


def test_rows_that_a_try_with_the_training_moves_are_on_the_host() -> None:
    lines = f"{sft_script(imports='import torch')}\ntorch.zeros(2).cuda()\n".replace("\n", "\n    ")
    ported = port(f"try:\n    {lines}\nexcept Exception as error:\n    print(error)\n")
    assert ported.status == "ported" and "torch.zeros(2).cpu()" in ported.after


def test_a_function_that_trains_and_that_another_file_calls() -> None:
    """Its calls that raise went without a word: nothing of this file calls it."""
    text = sft_script("torch.cuda.init()", imports="").replace("\n", "\n    ")
    found = port(f"import torch\n\n\ndef train():\n    {text}\n")
    assert [finding.rule for finding in found.findings if finding.severity == "error"] == ["TP536"]


def test_a_guard_of_a_function_that_is_given_torch_goes() -> None:
    """It stayed, and ended the port: `torch` was a parameter like any other."""
    check = (
        "def check(torch):\n    if not torch.cuda.is_available():\n        raise RuntimeError('no GPU')\n    print(1)\n"
    )
    found = port(sft_script(f"{check}\n\ncheck(torch)", imports="import torch"))
    assert found.status == "ported" and "is_available" not in found.after
    other = f"{check}\n\ncheck(torch)\ncheck(load_dataset)"
    assert "is_available" in port(sft_script(other, imports="import torch")).after


def test_a_function_that_is_called_behind_the_training() -> None:
    free = "def free():\n    torch.cuda.init()"
    assert len(said(free, "trainer.train()\nfree()")) == 1
    assert said(free, "trainer.train()\nif torch.cuda.is_available():\n    free()") == []


def test_a_block_that_never_runs_needs_nothing() -> None:
    lines = "if False:\n    from peft import AutoPeftModelForCausalLM\n    tuned = AutoPeftModelForCausalLM"
    ported = port(sft_script(after=f"trainer.train()\n{lines}.from_pretrained('out', load_in_4bit=True)"))
    assert ported.status == "ported" and not [f for f in ported.findings if f.rule in ("TP001", "TP536")]


def test_a_long_call_is_told_by_its_name() -> None:
    long = (
        "step = torch.cuda.Event(\n    enable_timing=True,\n    blocking=len(sys.argv) > 1,\n    interprocess=False,\n)"
    )
    (message,) = said(long)
    assert message.startswith("torch.cuda.Event(...) needs a GPU")


@pytest.mark.parametrize(
    ("line", "moved"),
    [
        ("scores = torch.zeros(8, device='cuda')", 'scores = torch.zeros(8, device="cpu")'),
        ("scores = torch.zeros(8).cuda(non_blocking=True)", "scores = torch.zeros(8).cpu()"),
        ("scores = torch.zeros(8).to('cuda:0')", 'scores = torch.zeros(8).to("cpu")'),
        ("place = torch.device('cuda')\nscores = torch.zeros(8, device=place)", 'place = torch.device("cpu")'),
        ("place = f'cuda:{len(sys.argv)}'\nscores = torch.zeros(8).to(place)", 'place = "cpu"\n'),
        ("noise = torch.Generator('cuda')", 'noise = torch.Generator("cpu")'),
    ],
)
def test_what_torch_computes_it_computes_on_the_host(line: str, moved: str) -> None:
    ported = port(
        sft_script(
            f"{line}\nsys.argv.append(str(place if 'place' in globals() else 0))", imports="import sys\nimport torch"
        )
    )
    assert ported.status == "ported" and moved in ported.after and "cuda" not in ported.after
    assert {finding.severity for finding in ported.findings if finding.rule == "TP536"} == {"info"}


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ('"judge/model", device="cuda"', '"judge/model", device="cpu"'),
        ('"judge/model", "cuda:0"', '"judge/model", "cpu"'),
        ('"judge/model", device_map=place', 'place = "cpu"'),
        ('"judge/model", name="cuda"', ""),
    ],
)
def test_what_a_module_that_stays_is_given_is_the_host(tmp_path: Path, given: str, moved: str) -> None:
    (tmp_path / "judges.py").write_text("import torch\n\n\nclass Judge:\n    pass\n")
    line = f'place = "cuda"\njudge = Judge({given})\nsys.argv.append(judge)'
    text = sft_script(line, imports="import sys\nfrom judges import Judge")
    ported = port_module(parse_module(text.encode(), str(tmp_path / "train.py")), Options())
    said_of = [each for each in ported.findings if each.rule == "TP536"]
    assert ported.status == "ported" and len(said_of) == (1 if moved else 0)
    assert moved in ported.after
    for each in said_of:
        assert each.severity == "warning" and "judges.py, which stays as it is: on the host's CPU" in each.message


def test_a_model_of_torch_s_that_is_moved_is_said_to_be_slow() -> None:
    moves = (
        "judge = AutoModelForCausalLM.from_pretrained('other/model')\njudge.to('cuda')\nsys.argv.append(judge.dtype)"
    )
    ported = port(sft_script(imports="import sys", after=f"trainer.train()\n{moves}"))
    assert ported.status == "ported" and 'judge.to("cpu")' in ported.after
    (said_of,) = [finding for finding in ported.findings if finding.rule == "TP536"]
    assert said_of.severity == "warning" and "slow" in said_of.message and "rt.load_model" in said_of.fix


def test_a_setting_by_the_gpu_s_capability_is_what_it_was() -> None:
    asked = "torch.cuda.get_device_capability()[0] >= 8"
    kept = port(sft_script(imports="import sys\nimport torch", config=f", bf16={asked}, seed=int(sys.argv[1])"))
    assert kept.status == "ported" and "get_device_capability" not in kept.after


def test_memory_that_is_compared_for_a_warning_only_goes() -> None:
    asked = (
        "memory = torch.cuda.get_device_properties(0).total_memory / 1e9\n"
        "print(f'{memory:.1f} GB')\nif memory < 8:\n    print('little memory')\nelif memory > 80:\n    print('much')\n"
    )
    ported = port(sft_script(asked, imports="import torch"))
    assert ported.status == "ported" and "memory" not in ported.after
    acting = asked.replace("print('little memory')", "sys.exit('little memory')")
    assert len(said(acting)) == 1


def test_a_check_for_a_gpu_tells_nobody_that_there_is_none() -> None:
    check = (
        "def check():\n    if not torch.cuda.is_available():\n        print('no GPU')\n        return False\n"
        "    print('fine')\n    return True\n\n\nif not check():\n    sys.exit(1)\n"
    )
    ported = port(sft_script(check, imports="import sys\nimport torch"))
    assert ported.status == "ported" and "return False" not in ported.after and "return True" in ported.after
    more = check.replace("    print('fine')", "    sys.argv.append(torch.cuda.get_device_name(0))")
    left = port(sft_script(more, imports="import sys\nimport torch"))
    assert left.status != "ported"
    assert any("or tells its caller" in finding.message for finding in left.findings)


def test_a_line_that_tells_of_other_things_too_names_the_tpu() -> None:
    tells = "print(f'{torch.cuda.get_device_name(0)}: {len(sys.argv)} words')"
    ported = port(sft_script(tells, imports="import sys\nimport torch"))
    assert ported.status == "ported"
    assert "print(f'{jax.devices()[0].device_kind}: {len(sys.argv)} words')" in ported.after


def test_a_record_of_the_run_names_the_tpu() -> None:
    record = "json.dump({'gpu': torch.cuda.get_device_name(0), 'on': f'{torch.cuda.get_device_name()}'}, sys.stdout)"
    ported = port(sft_script(record, imports="import json\nimport sys\nimport torch"))
    assert ported.status == "ported"
    assert "{'gpu': jax.devices()[0].device_kind, 'on': f'{jax.devices()[0].device_kind}'}" in ported.after
    memory = record.replace("torch.cuda.get_device_name(0)", "torch.cuda.max_memory_allocated() / 1e9")
    found = port(sft_script(memory, imports="import json\nimport sys\nimport torch"))
    assert found.status == "ported" and any("is 0 in the port" in finding.message for finding in found.findings)
    used = record.replace("torch.cuda.get_device_name(0)", "torch.cuda.get_device_name(0) == 'A100'")
    assert port(sft_script(used, imports="import json\nimport sys\nimport torch")).status == "partial"


@pytest.mark.parametrize(
    ("head", "goes"), [('f"Memory:"', True), ('"Memory:"', True), ('f"Memory of {model}:"', False)]
)
def test_the_heading_of_a_report_goes_with_it(head: str, goes: bool) -> None:
    report = f"if torch.cuda.is_available():\n    print({head})\n    print(f'{{torch.cuda.memory_allocated()}} bytes')"
    ported = port(sft_script(imports="import torch", after=f"trainer.train()\n{report}"))
    assert ("print(" not in ported.after and "torch" not in ported.after) is goes


@pytest.mark.parametrize(
    ("imports", "of"),
    [
        ("from torch.cuda import get_device_properties, max_memory_reserved", ""),
        ("from torch import cuda", "cuda."),
        ("import torch.cuda as cuda", "cuda."),
    ],
)
def test_a_report_goes_however_torch_cuda_was_imported(imports: str, of: str) -> None:
    report = f"gpu = {of}get_device_properties(0)\nheld = {of}max_memory_reserved()\nprint(f'{{gpu.name}}: {{held}}')"
    ported = port(sft_script(report, imports=imports))
    assert ported.status == "ported" and "cuda" not in ported.after and "print(" not in ported.after


def test_a_loop_that_tells_of_every_gpu_goes() -> None:
    tells = "print('GPU', i, torch.cuda.get_device_name(i))\n"
    loop = f"for i in range(torch.cuda.device_count()):\n    {tells}"
    ported = port(sft_script(loop, imports="import torch"))
    assert ported.status == "ported" and "torch" not in ported.after and "for " not in ported.after
    assert "for i in range(" in port(sft_script(f"{loop}print(i)\n", imports="import torch")).after


@pytest.mark.parametrize(
    "place",
    ["{'': torch.cuda.current_device()}", "torch.cuda.current_device()", "f'cuda:{torch.cuda.current_device()}'"],
)
def test_a_device_map_of_what_torch_loads_again_goes(place: str) -> None:
    again = "AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', device_map=places).save_pretrained('copy')"
    text = sft_script(
        f"places = {place}", imports="import torch", load=", device_map=places", after=f"trainer.train()\n{again}"
    )
    ported = port(text)
    assert ported.status == "ported", ported.findings
    assert 'device_map="cpu"' in ported.after and "torch" not in ported.after.replace("tunix", "")


CHOSEN = """\
import argparse
import json

config = json.load(open("missing.json"))
parser = argparse.ArgumentParser()
parser.add_argument("--spread", default="auto")
parser.add_argument("--place")
args = parser.parse_args()


def again(placed):
    return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map=placed)

"""


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ("config['device_map']", True),
        ("args.place", True),
        ("args.spread", False),
        ("'auto'", False),
        ("again(config['device_map'])", True),
        ("again('auto')", False),
    ],
)
def test_a_device_map_that_only_the_run_knows_is_the_host(given: str, moved: bool) -> None:
    loads = f"AutoModelForCausalLM.from_pretrained('EleutherAI/pythia-70m', device_map={given})"
    after = given if given.startswith("again") else loads
    ported = port(sft_script(CHOSEN, after=f"trainer.train()\n{after}.save_pretrained('copy')"))
    assert ('device_map="cpu"' in ported.after) == moved, ported.after
    assert any(finding.rule == "TP536" for finding in ported.findings) == moved


NOTE = "def note(text):\n    print(text)\n"


@pytest.mark.parametrize(
    ("function", "only_prints"),
    [
        (NOTE, True),
        (f"@functools.cache\n{NOTE}", False),
        (f"{NOTE}    sys.argv.append(text)\n", False),
        (f"{NOTE}    return text\n", False),
    ],
)
def test_a_function_that_only_prints_is_a_report(function: str, only_prints: bool) -> None:
    line = "note(torch.cuda.get_device_name(0))\n"
    found = port(sft_script(function + line, imports="import functools\nimport sys\nimport torch"))
    assert (line not in found.after) is only_prints is (found.status == "ported")


@pytest.mark.parametrize(("before", "said"), [("def never():\n    ", False), ("", True)])
def test_memory_is_told_where_the_port_comes_to_it(before: str, said: bool) -> None:
    line = f"{before}sys.argv.append(torch.cuda.max_memory_allocated())\n"
    found = port(sft_script(line, imports="import sys\nimport torch"))
    assert any("is 0 in the port" in finding.message for finding in found.findings) is said


TRIES = "try:\n    tuned = {}\n    tuned.save_pretrained('whole')\nexcept Exception as error:\n    print(error)\n"
LOAD = "AutoModelForCausalLM.from_pretrained('facebook/opt-125m'{})"


@pytest.mark.parametrize("load", [LOAD.format("") + ".to('cuda')", LOAD.format(", device_map={'': 0}")])
def test_a_model_of_torchs_in_a_try_is_on_the_host(load: str) -> None:
    imports = "from transformers import AutoModelForCausalLM"
    found = port(sft_script(imports=imports, after="trainer.train()\n" + TRIES.format(load)))
    assert '.to("cpu")' in found.after or 'device_map="cpu"' in found.after, found.after
    assert "on the host's CPU" in str(found.findings)


def test_a_try_that_takes_what_bitsandbytes_raises_is_said() -> None:
    imports = "from transformers import AutoModelForCausalLM, BitsAndBytesConfig"
    load = LOAD.format(", quantization_config=BitsAndBytesConfig(load_in_4bit=True)")
    found = port(sft_script(imports=imports, after="trainer.train()\n" + TRIES.format(load)))
    (said,) = [finding for finding in found.findings if finding.rule == "TP536"]
    assert said.severity == "warning" and "a `try` takes what torch raises here" in said.message
    assert found.status == "ported"


@pytest.mark.parametrize(
    "held", ["kind = torch.float16", "kind = torch.float16 if len(sys.argv) > 1 else torch.bfloat16"]
)
def test_a_load_that_bitsandbytes_quantises_ends_the_port_whatever_its_type(held: str) -> None:
    """The type is the TPU's in the port: that answers nothing of the load."""
    imports = "import sys\nimport torch\nfrom transformers import AutoModelForCausalLM, BitsAndBytesConfig"
    load = LOAD.format(", quantization_config=BitsAndBytesConfig(load_in_4bit=True), dtype=kind") + ".other()"
    found = port(sft_script(imports=imports, after=f"trainer.train()\n{held}\nagain = {load}"))
    (said,) = [finding for finding in found.findings if finding.rule == "TP536"]
    assert said.severity == "error" and "needs a GPU, and the port comes here" in said.message

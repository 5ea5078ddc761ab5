"""Types of what torch loads behind the training stay torch's, or go there by their name."""

import pytest

from .porting import port, sft_script

AGAIN = """trainer.train()
base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", torch_dtype={given})
PeftModel.from_pretrained(base, "out").merge_and_unload().save_pretrained("merged")
"""
IMPORTS = "import sys\nimport torch\nfrom peft import PeftModel"
CHOICE = "merged = torch.bfloat16 if len(sys.argv) > 1 else torch.float16\n"


def ported(before: str, given: str, load: str = "") -> str:
    result = port(sft_script(before, imports=IMPORTS, load=load, after=AGAIN.format(given=given)))
    assert result.status == "ported", result.findings
    return result.after


def test_what_only_torch_reads_stays_torch_s() -> None:
    after = ported(f'{CHOICE}print(f"in {{merged}}")\n', "merged")
    assert CHOICE in after and "torch_dtype=merged" in after and "import torch\n" in after
    branches = "if sys.argv:\n    merged = torch.bfloat16\nelse:\n    merged = torch.float16\n"
    assert branches in ported(branches, "merged")


@pytest.mark.parametrize("made", [f"{CHOICE}half = merged\n", "half = kind(sys.argv[1])\n"])
def test_what_the_training_reads_too_goes_by_its_name(made: str) -> None:
    kind = "def kind(name):\n    if name == 'bf16':\n        return torch.bfloat16\n    return torch.float32\n\n\n"
    text = sft_script(kind + made, imports=IMPORTS, after=AGAIN.format(given="half"))
    result = port(text.replace('dtype="bfloat16"', "dtype=half"))
    assert "torch_dtype=jnp.dtype(half).name" in result.after
    assert "torch.bfloat16" not in result.after and "import torch\n" not in result.after


@pytest.mark.parametrize("half", ["torch.float16", "torch.half"])
def test_float16_stays_float16_where_torch_loads_on_the_host(half: str) -> None:
    text = sft_script(f"half = {half}\n", imports=IMPORTS, after=AGAIN.format(given="half"))
    after = port(text.replace('dtype="bfloat16"', "dtype=half")).after
    assert 'torch_dtype="float16"' in after and "dtype=jnp.bfloat16" in after


@pytest.mark.parametrize(("test", "said"), [("len(sys.argv) > 1", True), ("torch.cuda.is_bf16_supported()", False)])
def test_float16_that_the_run_decides_is_said(test: str, said: bool) -> None:
    before = f"half = torch.bfloat16 if {test} else torch.float16\n"
    text = sft_script(before, imports=IMPORTS, after=AGAIN.format(given="half"))
    found = port(text.replace('dtype="bfloat16"', "dtype=half")).findings
    assert any("half may be float16" in finding.message for finding in found) is said


@pytest.mark.parametrize("name", ['"float16"', "sys.argv[1]"])
@pytest.mark.parametrize("load", ["dtype", '"bfloat16"'])
def test_a_type_that_is_looked_up_by_its_name_goes_by_its_name(name: str, load: str) -> None:
    text = sft_script(f"dtype = getattr(torch, {name})\n", imports=IMPORTS, after=AGAIN.format(given="dtype"))
    after = port(text.replace('dtype="bfloat16"', f"dtype={load}")).after
    assert f"dtype = getattr(jnp, {name})" in after and "torch_dtype=jnp.dtype(dtype).name" in after
    direct = f"getattr(torch, {name})"
    assert f"torch_dtype={direct}" in ported("", direct)


def test_a_pipeline_that_torch_makes_is_such_a_load() -> None:
    again = 'trainer.train()\npipe = pipeline("text-generation", model="merged", torch_dtype=half)\n'
    text = sft_script("half = torch.float16\n", imports=f"{IMPORTS}\nfrom transformers import pipeline", after=again)
    assert 'torch_dtype="float16"' in port(text.replace('dtype="bfloat16"', "dtype=half")).after


def test_a_type_that_may_be_something_else_is_named() -> None:
    before = "half = torch.bfloat16\nif sys.argv:\n    half = sys.argv[1]\n"
    result = port(
        sft_script(before, imports=IMPORTS, after=AGAIN.format(given="half")).replace('dtype="bfloat16"', "dtype=half")
    )
    assert any("half: torch loads a model in it" in finding.message for finding in result.findings)


@pytest.mark.parametrize("given", ["torch.bfloat16", '"bfloat16"', '"auto"'])
def test_a_type_in_the_call_stays(given: str) -> None:
    assert f"torch_dtype={given}" in ported("", given)


def test_what_bitsandbytes_quantises_for_torch_needs_a_gpu() -> None:
    again = AGAIN.format(given='"auto", {}')
    for keyword, ends in (("load_in_4bit=True", True), ("load_in_4bit=False", False)):
        found = port(sft_script(imports=IMPORTS, after=again.format(keyword))).findings
        assert any("needs a GPU" in finding.message for finding in found) is ends


LOOKED_UP = "types = {'half': torch.float16, 'bf16': torch.bfloat16}\n"


@pytest.mark.parametrize("lookup", ["types[sys.argv[1]]", "types.get(sys.argv[1], torch.float16)"])
def test_types_that_are_looked_up_for_torch_alone_stay(lookup: str) -> None:
    made = f"{LOOKED_UP}merged = {lookup}\n"
    after = ported(made, "merged")
    assert made in after and "torch_dtype=merged" in after


def test_types_that_are_looked_up_for_the_training_too_go_by_their_name() -> None:
    before = f"{LOOKED_UP}merged = types[sys.argv[1]]\nhalf = types['half']\n"
    text = sft_script(before, imports=IMPORTS, after=AGAIN.format(given="merged"))
    after = port(text.replace('dtype="bfloat16"', "dtype=half")).after
    assert "torch_dtype=jnp.dtype(merged).name" in after and "torch.float16" not in after


TENSORS = ["mask = torch.zeros(3, dtype=kind)", "mask = torch.zeros(3).to(kind)", "mask = torch.ones(2).type(kind)"]


@pytest.mark.parametrize("made", TENSORS)
def test_a_tensor_gets_torch_s_type(made: str) -> None:
    """By a variable that the training doesn't read, as it is; by one that it reads, too, by its name."""
    after = f"trainer.train()\n{made}\nkept = [mask]\n"
    own = port(sft_script("kind = torch.float32\n", imports=IMPORTS, after=after)).after
    assert "kind = torch.float32\n" in own and made in own
    text = sft_script("kind = torch.bfloat16\n", imports=IMPORTS, after=after).replace('dtype="bfloat16"', "dtype=kind")
    shared = port(text).after
    assert "kind = jnp.bfloat16\n" in shared
    assert made.replace("kind)", "getattr(torch, jnp.dtype(kind).name))") in shared


def test_the_model_that_is_trained_is_no_tensor() -> None:
    after = port(sft_script("kind = torch.float32\n", imports=IMPORTS, between="model.to(kind)")).after
    assert "torch" not in after and "getattr" not in after


def test_a_load_by_a_plain_variable_gets_torch_s_type() -> None:
    assert "merged = torch.bfloat16\n" in ported("merged = torch.bfloat16\n", "merged")


def test_a_tensor_of_a_type_that_may_be_something_else_is_named() -> None:
    before = "kind = torch.bfloat16\nif sys.argv:\n    kind = sys.argv[1]\n"
    result = port(
        sft_script(before, imports=IMPORTS, after="trainer.train()\nmask = torch.zeros(3, dtype=kind)\nkept = [mask]")
    )
    assert [f.message for f in result.findings if f.severity == "error"] == [
        "kind: torch makes a tensor of it here, and gets JAX's type of that name in the port."
    ]

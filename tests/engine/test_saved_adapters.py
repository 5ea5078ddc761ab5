"""PeftModel.from_pretrained: trained on with is_trainable=True, named where the adapter stays frozen."""

import pytest

from .porting import port

HEAD = """from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import {kind}Config, {kind}Trainer
base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
"""
TAIL = """trainer = {kind}Trainer(
    model,
    args={kind}Config("out", max_steps=5, report_to="none"{extra}),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
trainer.train()
"""
SAVED = 'model = PeftModel.from_pretrained(base, "out/sft", is_trainable=True)\n'


def script(load: str, kind: str = "SFT", extra: str = "") -> str:
    return HEAD.format(kind=kind) + load + TAIL.format(kind=kind, extra=extra)


def test_training_goes_on_from_the_adapter() -> None:
    ported = port(script(SAVED))
    assert ported.status == "ported"
    assert 'model = rt.apply_adapter(base, "out/sft", mesh, seed=42)' in ported.after
    assert "peft" not in ported.after.replace("peft_trainer", "")


@pytest.mark.parametrize("asked", ["", ", is_trainable=False"])
def test_a_frozen_adapter_is_named(asked: str) -> None:
    ported = port(script(SAVED.replace(", is_trainable=True", asked)))
    assert ported.status == "partial"
    assert "rt.apply_adapter(" not in ported.after
    assert any("saved adapter that isn't trained" in finding.message for finding in ported.findings)


@pytest.mark.parametrize(("release", "copied"), [("0.28", False), ("0.29", True), (None, True)])
def test_the_reference_is_that_of_the_release(release: str | None, copied: bool) -> None:
    ported = port(script(SAVED, "DPO"), source_trl=release)
    assert ("ref_model=nnx.clone(model)" in ported.after) is copied
    assert "dropout=False" in ported.after  # disable_dropout, DPO's default


@pytest.mark.parametrize(("release", "base"), [("0.26.2", True), ("0.27.0", False)])
@pytest.mark.parametrize("load", [SAVED, "model = base\nif len(SAID) > 1:\n    " + SAVED])
def test_a_policy_is_compared_with_the_model_of_the_release(release: str, base: bool, load: str) -> None:
    reward = "import sys\nSAID = sys.argv\ndef reward(completions, **kwargs):\n    return [1.0] * len(completions)\n"
    text = script(load, "GRPO", ", beta=0.04").replace("model,\n", "model,\n    reward_funcs=reward,\n")
    ported = port(reward + text, source_trl=release)
    assert ported.status == "ported", ported.findings
    assert ('reference="base"' in ported.after) is base and "rt.apply_adapter(base, " in ported.after
    assert 'reference="base"' not in port(reward + text.replace("0.04", "0.0"), source_trl=release).after


def test_settings_of_the_call_are_kept_or_named() -> None:
    ported = port(script(SAVED.replace('"out/sft"', '"a/b", subfolder="last", revision="v1", config=other')))
    assert 'seed=42, subfolder="last", revision="v1")' in ported.after
    assert any("adapter_config.json" in finding.message for finding in ported.findings if finding.severity == "error")


@pytest.mark.parametrize("wrap", ["base", "model"])
def test_a_saved_adapter_or_a_new_one(wrap: str) -> None:
    branches = f"""model = None
base.config.use_cache = False
if os.path.isdir("out/sft"):
    {wrap} = PeftModel.from_pretrained(base, "out/sft", is_trainable=True)
else:
    config = LoraConfig(r=8)
    {wrap} = get_peft_model(base, config)
"""
    source = script(branches).replace("import PeftModel", "import LoraConfig, PeftModel, get_peft_model")
    source = f"import os\n{source}"
    end = "model.print_trainable_parameters()\nmodel.save_pretrained('last')\n"
    if wrap == "base":
        source = source.replace("model,\n    args", "base,\n    args")
        end = end.replace("model.", "base.")
    ported = port(source + end)
    assert ported.status == "ported", ported.findings
    assert f'    {wrap} = rt.apply_adapter(base, "out/sft", mesh, seed=42)\n' in ported.after
    assert f"    {wrap} = rt.apply_peft(base, config, mesh, seed=42)\n" in ported.after
    assert f"rt.print_trainable_parameters({wrap})\nrt.save_model({wrap}, 'last')" in ported.after
    assert "use_cache" not in ported.after


def test_an_adapter_in_one_branch_and_another_model_in_the_other() -> None:
    load = f"if len('x'):\n    {SAVED}else:\n    model = make()\n"
    assert port(script(load)).status == "partial"


MERGED = [
    'model = PeftModel.from_pretrained(base, "out/sft").merge_and_unload()\n',
    'adapted = PeftModel.from_pretrained(base, "out/sft")\nmodel = adapted.merge_and_unload()\n',
    'model = PeftModel.from_pretrained(base, "out/sft").merge_and_unload(safe_merge=True, progressbar=True)\n',
    'model = PeftModel.from_pretrained(base, model_id="out/sft", token="")\nmodel = model.merge_and_unload()\n',
]


@pytest.mark.parametrize("load", MERGED)
@pytest.mark.parametrize("extra", ["", ", peft_config=LoraConfig(r=8)"])
def test_a_saved_adapter_merged_before_the_training(load: str, extra: str) -> None:
    source = script(f"{load}model.config.use_cache = False\nmodel.requires_grad_(True)\n", "DPO").replace(
        ",\n)", f"{extra},\n)"
    )
    source = source.replace("import PeftModel", "import LoraConfig, PeftModel")
    ported = port(f"{source}trainer.save_model('last')\n")
    assert ported.status == "ported", ported.findings
    assert ' = rt.merge_adapter(base, "out/sft", mesh)\n' in ported.after
    assert "merge_and_unload" not in ported.after and "use_cache" not in ported.after
    assert "requires_grad" not in ported.after
    assert ("rt.apply_lora(model" in ported.after) is bool(extra)
    assert f"rt.save_{'adapter' if extra else 'model'}(model, 'last'" in ported.after


@pytest.mark.parametrize(
    ("behind", "trainer", "frozen"),
    [
        ("", "", True),
        ("", ", peft_config=LoraConfig(r=8) if len(ASKED) else None", False),
        ("for p in model.parameters():\n    p.requires_grad = True\n", "", False),
        ("model = get_peft_model(model, LoraConfig(r=8))\n", "", False),
    ],
)
@pytest.mark.parametrize("kind", ["SFT", "DPO"])
def test_a_merged_model_is_frozen_until_somebody_frees_it(behind: str, trainer: str, frozen: bool, kind: str) -> None:
    """PEFT freezes the base when it loads an adapter, and leaves it so when it merges."""
    source = script(MERGED[0] + behind, kind).replace(",\n)", f"{trainer},\n)")
    source = source.replace("import PeftModel", "import LoraConfig, PeftModel, get_peft_model")
    ported = port(f"import sys\nASKED = sys.argv\n{source}")
    found = [finding.severity for finding in ported.findings if "frozen every weight" in finding.message]
    assert found == (["error"] if frozen else []), ported.findings


@pytest.mark.parametrize(
    "merge",
    [
        "if base:\n    model = model.merge_and_unload()",
        "for _ in range(2):\n    model.merge_and_unload()",
        "model = model.merge_and_unload() if base else model",
        "model = model.merge_and_unload(adapter_names=['other'])",
        "model = model.merge_and_unload(True)",
    ],
)
def test_what_may_not_be_merged_is_left_to_a_person(merge: str) -> None:
    ported = port(script(f'model = PeftModel.from_pretrained(base, "out/sft")\n{merge}\n'))
    assert ported.status == "partial" and "rt.merge_adapter" not in ported.after


def test_what_another_library_loads_and_merges_is_not_known() -> None:
    assert port(script('model = other.load(base, "out/sft").merge_and_unload()\n')).status == "partial"


def adapted(load: str) -> str:
    """A script whose trainer gets new adapters: what was merged is frozen without."""
    source = script(load).replace(",\n)", ", peft_config=LoraConfig(r=8),\n)")
    return source.replace("import PeftModel", "import LoraConfig, PeftModel")


def test_a_function_that_merges_and_one_loaded_in_the_same_expression() -> None:
    lines = adapted(MERGED[0]).splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("base = "))
    load = lines[at].removeprefix("base = ").rstrip()
    made = f"def start(path):\n    return PeftModel.from_pretrained({load}, path, subfolder='v1').merge_and_unload()\n"
    ported = port("".join([*lines[:at], made, "model = start('out/sft')\n", *lines[at + 2 :]]))
    assert ported.status == "ported", ported.findings
    loaded = 'rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.bfloat16)'
    assert f"    return rt.merge_adapter({loaded}, path, mesh, subfolder='v1')\n" in ported.after


@pytest.mark.parametrize(
    ("between", "merged"),
    [
        ("if not merge:\n        return model", False),
        ("for _ in range(3):\n        if merge:\n            break", True),
        ("print(model)", True),
    ],
)
def test_a_function_that_may_give_the_model_back_before_it_merges(between: str, merged: bool) -> None:
    lines = adapted(MERGED[0]).splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("base = "))
    loaded = f"    {lines[at]}    model = PeftModel.from_pretrained(base, path)\n"
    made = f"def start(path, merge):\n{loaded}    {between}\n    return model.merge_and_unload()\n"
    ported = port("".join([*lines[:at], made, "model = start('out/sft', MERGE)\n", *lines[at + 2 :]]))
    assert ("rt.merge_adapter(" in ported.after) is merged and ported.status == ("ported" if merged else "partial")


def test_what_is_merged_into_a_quantised_model_or_behind_the_training_is_not() -> None:
    quantised = script(MERGED[0]).replace(
        'dtype="bfloat16"', "quantization_config=BitsAndBytesConfig(load_in_4bit=True)"
    )
    ported = port(quantised.replace("AutoTokenizer\n", "AutoTokenizer, BitsAndBytesConfig\n", 1))
    assert any("can't be merged into a quantised" in finding.message for finding in ported.findings)
    behind = script("model = base\n") + MERGED[0].replace("model =", "merged =") + "merged.save_pretrained('whole')\n"
    assert "rt.merge_adapter" not in port(behind).after


COLD_START = """from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

rows = load_dataset("some/rows", split="train")
other = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), LoraConfig(r=8))


def reward(completions, **kwargs):
    return [0.0 for _ in completions]


warm = SFTTrainer({first}, args=SFTConfig("warm"), train_dataset=rows)
warm.train()
args = GRPOConfig("out", beta=0.04)
trainer = GRPOTrainer(model=model, reward_funcs=reward, args=args, train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("release", "first", "base"),
    [
        ("0.15.2", "model", True),
        ("0.15.2", "model=model", True),
        ("0.15.2", "other", False),
        ("0.27.0", "model", False),
    ],
)
def test_adapters_that_were_trained_before_are_no_reference(release: str, first: str, base: bool) -> None:
    """Without its adapters the policy is the base, whatever they were trained on first."""
    found = port(COLD_START.format(first=first), source_trl=release)
    assert ('reference="base"' in found.after) is base, found.after

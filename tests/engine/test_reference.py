"""What a script does with its reference model, and checkpointing that it asks of a model by condition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .porting import check_becomes, port, rule_module

DPO = """\
import sys
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer
args = DPOConfig("out"{more})
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
ref_model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
{lines}
trainer = DPOTrainer(model=model, ref_model=ref_model, args=args, train_dataset=load_dataset("x", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"))
trainer.train()
"""


@pytest.mark.parametrize(
    "line",
    [
        "ref_model.eval()",
        "ref_model.gradient_checkpointing_enable()",
        "ref_model.requires_grad_(False)",
        "ref_model.config.use_cache = False",
        "for p in ref_model.parameters():\n    p.requires_grad = False",
        "for name, p in ref_model.named_parameters():\n    p.requires_grad_(False)\n",
    ],
)
def test_what_a_reference_needs_not_goes(line: str) -> None:
    found = check_becomes(DPO.format(lines=line, more=""), gone=("ref_model.", "requires_grad"))
    assert found.status == "ported"


@pytest.mark.parametrize(
    "line",
    ["ref_model.add_module('x', None)", "y = ref_model.lm_head", "for p in ref_model.parameters():\n    print(p)"],
)
def test_what_tunix_has_not_is_named(line: str) -> None:
    found = port(DPO.format(lines=line, more=""))
    assert [finding.rule for finding in found.findings if finding.severity == "error"] == ["TP190"]


@pytest.mark.parametrize(("more", "checkpoints"), [("", True), (", gradient_checkpointing=False", False)])
def test_a_model_that_repeats_what_the_trainer_is_told(more: str, checkpoints: bool) -> None:
    """`if args.gradient_checkpointing:` of arguments that are gone is decided; it was a name that nothing binds."""
    asked = "if args.gradient_checkpointing:\n    model.gradient_checkpointing_enable()"
    found = check_becomes(DPO.format(lines=asked, more=more), gone=("args.",))
    assert ("rt.remat(model)" in found.after) is checkpoints


def test_a_name_that_only_new_code_uses_is_found_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The net below: whatever writes the condition of something that is gone, the port is said not to run."""
    monkeypatch.setattr(rule_module("transformers", "loading.checkpointing"), "_argument_read", lambda *_: None)
    asked = "if args.gradient_checkpointing:\n    model.gradient_checkpointing_enable()"
    found = port(DPO.format(lines=asked, more=""))
    assert any("args is used here" in finding.message for finding in found.findings) and found.status == "partial"


def test_a_reference_that_another_function_sees_has_its_devices_first() -> None:
    lines = DPO.format(lines="", more="").split("\n")
    at = next(index for index, line in enumerate(lines) if line.startswith("model ="))
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    inside = [f"    {line}" for line in lines[at + 1 :] if line]
    found = check_becomes("\n".join([*lines[: at + 1], "def main():", *inside, "main()\n"]))
    assert found.status == "ported"
    assert found.after.index("mesh = jax.make_mesh") < found.after.index("ref_model = rt.load_model")


OWN = """\
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import DPOConfig, DPOTrainer
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
small = BitsAndBytesConfig(load_in_8bit=True)
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", {policy})
ref_model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B"{reference})
trainer = DPOTrainer(model=model, ref_model=ref_model, args=DPOConfig("out", force_use_ref_model=True{args}),
    train_dataset=load_dataset("x", split="train"), processing_class=tokenizer{adapters})
trainer.train()
"""
ADAPTERS = ", peft_config=LoraConfig(r=8, target_modules=['q_proj'])"
HELD = "dtype=torch.bfloat16, quantization_config=bnb, revision='a'"


@pytest.mark.parametrize(
    ("policy", "reference", "args", "adapters", "loaded"),
    [
        (HELD, "", "", ADAPTERS, ""),
        (HELD, ", dtype=torch.bfloat16, revision='b'", "", ADAPTERS, ", dtype=jnp.bfloat16, revision='b'"),
        (HELD, ", quantization_config=small", "", ADAPTERS, ", quantization=small"),
        (HELD, ", load_in_8bit=True", "", ADAPTERS, ', dtype=jnp.bfloat16, quantization={"load_in_8bit": True}'),
        (HELD, ", dtype=torch.float32", ", bf16=False", ADAPTERS, ", dtype=jnp.float32"),
        (HELD, ", dtype=torch.float32", "", ADAPTERS, ", dtype=jnp.bfloat16"),  # what autocast makes of frozen weights
        ("dtype=torch.float32", ", dtype=torch.float32", "", "", ", dtype=jnp.float32, compute_dtype=jnp.bfloat16"),
        ("dtype='auto'", ", dtype=torch.float16", "", "", ", dtype=jnp.bfloat16"),
    ],
)
def test_a_reference_is_loaded_as_its_own_call_says(
    policy: str, reference: str, args: str, adapters: str, loaded: str
) -> None:
    found = port(OWN.format(policy=policy, reference=reference, args=args, adapters=adapters))
    assert f'ref_model = rt.load_model("Qwen/Qwen3-1.7B", mesh{loaded})\n' in found.after


def test_a_reference_in_a_branch_is_given_no_name_of_the_other() -> None:
    lines = DPO.partition("model = ")[0].replace("AutoTokenizer", "AutoTokenizer, BitsAndBytesConfig") + (
        "if sys.argv:\n"
        "    bnb = BitsAndBytesConfig(load_in_8bit=True) if sys.argv[1:] else None\n"
        "    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', quantization_config=bnb)\n"
        "    ref_model = None\n"
        "else:\n"
        "    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
        "    ref_model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-1.7B')\n"
        "    ref_model.resize_token_embeddings(8)\n"
    )
    found = port(lines.replace("{more}", "") + DPO.partition("{lines}\n")[2])
    assert "    ref_model = rt.load_model('Qwen/Qwen3-1.7B', mesh)\n" in found.after
    assert "    rt.resize_vocabulary(ref_model, 8)\n" in found.after


def test_code_from_the_hub_has_its_line_at_the_reference_too() -> None:
    load = 'ref_model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"'
    found = port(DPO.format(more="", lines="").replace(load, f"{load}, trust_remote_code=True"))
    (row,) = [row for row in found.fields if row.source.endswith("trust_remote_code")]
    assert row.fate == "changed"
    assert found.after.splitlines()[row.places[0].line - 1].startswith("ref_model = rt.load_model")


CHANGED = """\
from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTTrainer, {kind}Config, {kind}Trainer
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("x", split="train")
def reward(completions, **kwargs):
    return [1.0] * len(completions)
{change}
trainer = {kind}Trainer(model=model, {rewards}args={kind}Config("out", beta=0.1{more}), train_dataset=rows,
    processing_class=tokenizer)
trainer.train()
"""
MERGED = 'model = PeftModel.from_pretrained(model, "out/sft").merge_and_unload()\nmodel.requires_grad_(True)'
TRAINED = "sft = SFTTrainer(model=model, train_dataset=rows, processing_class=tokenizer)\nsft.train()"
RESIZED = "model.resize_token_embeddings(len(tokenizer))"


def changed(kind: str, change: str, more: str = "") -> str:
    rewards = "reward_funcs=reward, " if kind in ("GRPO", "RLOO") else ""
    return CHANGED.format(kind=kind, change=change, rewards=rewards, more=more)


@pytest.mark.parametrize(
    ("kind", "copies", "loads"),
    [("GRPO", "0.18.2", "0.19.0"), ("DPO", "0.28.0", "0.29.0"), ("KTO", "1.1.0", "1.2.0"), ("RLOO", "", "0.22.0")],
)
def test_the_reference_is_loaded_anew_as_the_release_does(kind: str, copies: str, loads: str) -> None:
    anew = 'reference="checkpoint"' if kind in ("GRPO", "RLOO") else "ref_model=rt.load_reference(model, mesh)"
    found = check_becomes(changed(kind, MERGED), source_trl=loads)
    assert anew in found.after and found.status == "ported"
    assert any("without the adapter that is merged in" in finding.message for finding in found.findings)
    older = port(changed(kind, MERGED), source_trl=copies) if copies else found
    assert (anew in older.after) is not bool(copies)
    assert anew not in port(changed(kind, ""), source_trl=loads).after  # the model is its checkpoint


@pytest.mark.parametrize("change", [TRAINED, RESIZED])
@pytest.mark.parametrize("kind", ["GRPO", "DPO"])
def test_whatever_was_done_to_the_model(kind: str, change: str) -> None:
    found = port(changed(kind, change), source_trl="1.9.2")
    assert 'reference="checkpoint"' in found.after or "rt.load_reference(model, mesh)" in found.after
    adapters = changed(kind, change).replace("processing_class", "peft_config=LoraConfig(r=4),\n    processing_class")
    of_adapters = port("from peft import LoraConfig\n" + adapters, source_trl="1.9.2").after
    assert '"checkpoint"' not in of_adapters and "load_reference" not in of_adapters


ADAPTED = TRAINED.replace("train_dataset", "peft_config=LoraConfig(r=4), train_dataset")


def adapted(kind: str, more: str = "") -> str:
    """A trainer behind an SFTTrainer that has put adapters into the model of both."""
    return "from peft import LoraConfig\n" + changed(kind, ADAPTED, more)


@pytest.mark.parametrize(
    ("kind", "copies", "loads"), [("GRPO", "0.18.2", "0.19.0"), ("DPO", "0.28.0", "0.29.0"), ("KTO", "1.1.0", "1.2.0")]
)
def test_a_model_with_the_adapters_of_the_trainer_before_is_a_whole_one(kind: str, copies: str, loads: str) -> None:
    """As TRL 0.12.2, 0.18.1, 0.21.0, 0.28.0 and 1.16.0 did with it: what is copied has the adapters as they are."""
    older, newer = (port(adapted(kind), source_trl=release) for release in (copies, loads))
    clone = f"ref_model=nnx.clone(model),  # with the adapters that it has, as TRL {copies} copies it\n"
    assert (clone in older.after) is (kind != "GRPO") and "reference=" not in older.after
    assert ('reference="checkpoint"' if kind == "GRPO" else "rt.load_reference(model, mesh)") in newer.after
    for found in (older, newer):
        said = [one for one in found.findings if "takes it for a whole model" in one.message]
        assert found.status == "ported" and [one.severity for one in said] == ["warning"]


def test_kept_arguments_take_a_copy_with_the_adapters_of_the_trainer_before() -> None:
    kept = adapted("GRPO").replace('args=GRPOConfig("out", beta=0.1)', "args=args")
    made = "import json\nargs = GRPOConfig(**json.load(open('settings.json')))\nsft ="
    kept = kept.replace("sft =", made)
    assert 'reference="start",' in port(kept, source_trl="0.16.0").after
    assert 'reference="checkpoint",' in port(kept, source_trl="0.22.0").after


def test_adapters_that_are_put_in_twice_are_an_error() -> None:
    twice = adapted("DPO").replace("train_dataset=rows,\n", "peft_config=LoraConfig(r=8), train_dataset=rows,\n")
    found = port(twice, source_trl="0.22.0")
    assert [one.severity for one in found.findings if "what was learned is lost" in one.message] == ["error"]
    assert "nnx.clone" not in found.after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trainer = ", "model = get_peft_model(model, LoraConfig(r=8))\ntrainer = "),
        ("sft = ", "other = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-1.7B')\nsft = "),
    ],
    ids=["its own PeftModel", "of another model"],
)
def test_adapters_that_the_trainer_before_has_not_put_into_its_model(old: str, new: str) -> None:
    text = "from peft import get_peft_model\n" + adapted("DPO").replace(old, new)
    if "other" in new:
        text = text.replace("sft = SFTTrainer(model=model", "sft = SFTTrainer(model=other")
    found = port(text, source_trl="0.22.0")
    assert not any("takes it for a whole model" in one.message for one in found.findings)
    assert "with the adapters that it has" not in found.after, found.after


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        (MERGED, ", deepspeed=sys.argv[1]", ["warning"]),
        ("", ", deepspeed=sys.argv[1]", []),
        (MERGED, "", []),
        (MERGED, ", deepspeed={'zero_optimization': {'stage': 2}, 'steps_per_print': 3}", []),
        (MERGED, ", deepspeed=sys.argv[1], **json.load(open('more.json'))", ["warning"]),
    ],
)
def test_a_grpo_run_that_may_be_sharded_is_said(change: str, more: str, said: list[str]) -> None:
    found = port("import json, sys\n" + changed("GRPO", change, more), source_trl="0.16.0")
    assert [one.severity for one in found.findings if "which only the run knows" in one.message] == said
    assert 'reference="checkpoint"' not in found.after


def test_settings_that_only_the_run_has_may_shard_it() -> None:
    kept = changed("GRPO", MERGED).replace('args=GRPOConfig("out", beta=0.1)', "args=args")
    made = "import json\nargs = GRPOConfig(**json.load(open('settings.json')))\nmodel = Peft"
    found = port(kept.replace("model = Peft", made, 1), source_trl="0.16.0")
    assert [one.severity for one in found.findings if "which only the run knows" in one.message] == ["warning"]


STAGES = """\
def sft(model):
    SFTTrainer(model=model, peft_config=LoraConfig(r=4), train_dataset=rows, processing_class=tokenizer).train()
def dpo(model):
    {made}
    trainer.train()
"""


@pytest.mark.parametrize(
    ("calls", "twice"),
    [
        ("sft(model)\ndpo(model)", True),
        ("def again(n):\n    sft(model)\n    again(n - 1)\nagain(3)\ndpo(model)", True),
        ("if len(rows) > 9:\n    sft(model)\nelse:\n    dpo(model)", False),
    ],
)
def test_functions_of_which_one_runs_put_adapters_in_once(calls: str, twice: bool) -> None:
    head, _, made = changed("DPO", "").replace("rows,\n", "rows, peft_config=LoraConfig(r=8),").partition("trainer =")
    stages = STAGES.format(made="trainer =" + " ".join(made.removesuffix("trainer.train()\n").split()))
    found = port(f"from peft import LoraConfig\n{head}{stages}{calls}\n", source_trl="0.22.0")
    assert any("what was learned is lost" in one.message for one in found.findings) is twice, found.after


def test_a_quantised_model_with_the_adapters_of_the_trainer_before_is_refused_there() -> None:
    held = adapted("DPO").replace('("Qwen/Qwen3-0.6B")\nrows', '("Qwen/Qwen3-0.6B", load_in_4bit=True)\nrows')
    for release in ("0.22.0", "0.29.0"):
        found = port(held, source_trl=release).findings
        assert [one.severity for one in found if "refuses to train" in one.message] == ["warning"]
        assert not any("the base below the adapters" in one.message for one in found)
    some = held.replace("load_in_4bit=True", "load_in_4bit=len(sys.argv) > 1").replace(
        "from peft", "import sys\nfrom peft"
    )
    [found] = [one.message for one in port(some, source_trl="0.22.0").findings if "refuses to train" in one.message]
    assert "a quantised model where the script quantises it and" in found
    old = "# pip install transformers==4.35.2\n" + held.replace("Qwen/Qwen3-0.6B", "meta-llama/Llama-2-7b-hf")
    found = port(old, source_trl="0.9.6")
    assert found.recipe.versions["transformers"].startswith("4.35.2")
    assert not any("refuses to train" in one.message for one in found.findings)


def test_a_merge_before_the_adapters_of_the_trainer_before_is_an_error() -> None:
    found = port(adapted("DPO").replace("sft = SFT", f"{MERGED}\nsft = SFT"), source_trl="0.29.0")
    [said] = [one for one in found.findings if "the port's is the base below the adapters" in one.message]
    assert said.severity == "error" and "without the adapter that is merged in; the" in said.message


ZERO3, FSDP = {"zero_optimization": {"stage": 3}}, "distributed_type: FSDP\nnum_processes: 2\n"


@pytest.mark.parametrize(
    ("release", "launch", "loads"),
    [
        ("0.14.0", ZERO3, True),
        ("0.18.1", ZERO3, True),
        ("0.18.1", {"zero_optimization": {"stage": 2}}, False),
        ("0.17.0", FSDP, False),
        ("0.18.1", FSDP, True),
    ],
)
def test_a_sharded_grpo_run_loads_its_reference_early(
    release: str, launch: dict[str, dict[str, int]] | str, loads: bool, tmp_path: Path
) -> None:
    file = tmp_path / ("fsdp.yaml" if isinstance(launch, str) else "ds.json")
    file.write_text(launch if isinstance(launch, str) else json.dumps(launch))
    options: dict[str, object] = {"source_trl": release, "launch_config": file}
    assert ('reference="checkpoint"' in port(changed("GRPO", MERGED), **options).after) is loads
    new = "from peft import LoraConfig\n" + changed("GRPO", MERGED)
    new = new.replace("args=", "peft_config=LoraConfig(r=4), args=")
    for text in (new, new.replace(MERGED, "").replace('-0.6B")\nrows', '-0.6B", load_in_4bit=True)\nrows')):
        found = port(text, **options)
        said = [one for one in found.findings if "the port's is the base below the adapters" in one.message]
        assert [one.severity for one in said] == (["error"] if loads else []), found.findings
        assert all(f"under {'FSDP' if launch is FSDP else 'ZeRO-3'} loads" in one.message for one in said)
    plain = port(new.replace(MERGED, ""), **options)
    assert not any("loads its reference" in one.message for one in plain.findings)


def test_weights_that_the_trainer_s_own_arguments_shard() -> None:
    found = port(changed("GRPO", MERGED, ", fsdp='full_shard'"), source_trl="0.18.1")
    assert 'reference="checkpoint",  # the checkpoint without' in found.after and "under FSDP loads it" in found.after
    assert any("GRPOTrainer of TRL 0.18.1 under FSDP loads its" in one.message for one in found.findings)


def test_a_loss_without_a_reference_loads_none() -> None:
    beforehand = port(changed("DPO", MERGED, ", precompute_ref_log_probs=True"), source_trl="1.9.2")
    assert "load_reference" not in beforehand.after  # of the model as it starts
    assert 'checkpoint"' not in port(changed("GRPO", MERGED).replace("0.1", "0.0"), source_trl="1.9.2").after

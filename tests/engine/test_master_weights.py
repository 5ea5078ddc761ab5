"""float32 weights below bfloat16 ones, as DeepSpeed and FSDP train them: known now, by condition, or said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options, Port

HEAD = """\
from dataclasses import dataclass
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, HfArgumentParser
from trl import ModelConfig, SFTConfig, SFTTrainer, get_peft_config

@dataclass
class Cli:
    ds: str = "ds.json"

"""
LOADS = 'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", torch_dtype=torch.bfloat16)\n'
CLI = "cli, = HfArgumentParser(Cli).parse_args_into_dataclasses()\n"
LITERAL = 'args = SFTConfig(output_dir="out", deepspeed=cli.ds, bf16=True)\n'
PARSED = "args, = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()\n"
BOTH = "args, model_args = HfArgumentParser((SFTConfig, ModelConfig)).parse_args_into_dataclasses()\n"
TAIL = """\
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer(MODEL, args=args, train_dataset=rowsMORE)
trainer.train()
"""
ZERO = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}, "gradient_clipping": "auto"}
FSDP = "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nnum_processes: 8\n"
ACCELERATED = (
    "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\nmixed_precision: bf16\nnum_processes: 8\n"
)
FILES = {"ds.json": json.dumps(ZERO), "fsdp.yaml": FSDP, "mixed.yaml": f"{FSDP}mixed_precision: bf16\n"}
FILES |= {"zero.yaml": ACCELERATED, "ddp.yaml": "distributed_type: MULTI_GPU\nnum_processes: 8\n"}
FLOAT32 = ", dtype=jnp.float32, compute_dtype=jnp.bfloat16)"
ASKED = "(args.deepspeed or args.fsdp) and (args.bf16 or args.fp16)"


def ported(folder: Path, lines: str, launch: str = "", more: str = "", model: str = "model") -> Port:
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "train.py").write_text(HEAD + lines + TAIL.replace("MODEL", model).replace("MORE", more))
    return port_file(folder / "train.py", Options(launch_config=folder / launch if launch else None))


def loaded(port: Port) -> str:
    """What `rt.load_model` is given behind the mesh."""
    text = re.sub(r"\s+", " ", port.after.partition("rt.load_model(")[2].partition("mesh")[2])
    return re.sub(r",? \)", ")", text)


@pytest.mark.parametrize(
    ("lines", "launch", "given"),
    [
        (CLI + LOADS + LITERAL, "ds.json", FLOAT32),
        (CLI + LOADS + LITERAL, "", ", **rt.weight_types(jnp.bfloat16, masters=cli.ds))"),
        (LOADS + PARSED, "mixed.yaml", FLOAT32),
        (PARSED + LOADS, "zero.yaml", FLOAT32),
        (PARSED + LOADS.replace("bfloat16", "float16"), "mixed.yaml", FLOAT32),
        (PARSED + LOADS, "fsdp.yaml", ", **rt.weight_types(jnp.bfloat16, masters=args.bf16 or args.fp16))"),
        (PARSED + LOADS, "", f", **rt.weight_types(jnp.bfloat16, masters={ASKED}))"),
        (BOTH + LOADS.replace("torch.bfloat16", "model_args.dtype"), "zero.yaml", FLOAT32),
        (
            CLI + LOADS + LITERAL.replace("bf16=True", "bf16=False"),
            "",
            ", dtype=jnp.bfloat16)",
        ),
        (
            CLI + LOADS + LITERAL.replace("deepspeed=", "fsdp="),
            "",
            ", **rt.weight_types(jnp.bfloat16, masters=cli.ds))",
        ),
    ],
)
def test_weights_are_float32_where_they_are_trained_so(tmp_path: Path, lines: str, launch: str, given: str) -> None:
    port = ported(tmp_path, lines, launch)
    said = [finding for finding in port.findings if "train float32 weights in mixed precision" in finding.message]
    assert loaded(port).startswith(given) and not said, port.after
    row = next(row for row in port.fields if "torch_dtype" in row.source)
    assert (row.fate == "changed") == ("float32" in given or "weight_types" in given)


def test_what_is_decided_behind_the_model_is_told_at_its_line(tmp_path: Path) -> None:
    port = ported(tmp_path, LOADS + PARSED)
    found = [finding for finding in port.findings if "train float32 weights in mixed precision" in finding.message]
    assert [(finding.severity, finding.line) for finding in found] == [("warning", 11)]
    assert ASKED in found[0].message and "dtype=jnp.float32, compute_dtype=jnp.bfloat16" in found[0].fix
    row = next(row for row in port.fields if "torch_dtype" in row.source)
    assert (row.fate, ASKED in row.reason) == ("changed", True)


def test_adapters_leave_the_weights_below_them(tmp_path: Path) -> None:
    more = ", peft_config=get_peft_config(model_args)"
    given = "(args.bf16 or args.fp16) and get_peft_config(model_args) is None"
    found = loaded(ported(tmp_path, BOTH + LOADS, "fsdp.yaml", more))
    assert found.startswith(f", **rt.weight_types(jnp.bfloat16, masters={given}"), found


def test_a_models_name_is_loaded_by_the_same_rule(tmp_path: Path) -> None:
    name = '"Qwen/Qwen3-0.6B"'
    assert "rt.load_arguments(args, sharded=True)" in ported(tmp_path, PARSED, "zero.yaml", model=name).after
    more = ", peft_config=get_peft_config(model_args)"
    port = ported(tmp_path, BOTH, "", more, model=name)
    assert "rt.load_arguments(args, frozen=get_peft_config(model_args) is not None)" in " ".join(port.after.split())


def test_each_branch_that_loads_is_trained_so(tmp_path: Path) -> None:
    lines = PARSED + f"if args.seed:\n    {LOADS}else:\n    {LOADS.replace('0.6B', '1.7B')}"
    assert ported(tmp_path, lines, "zero.yaml").after.count(FLOAT32) == 2


PRODUCTS = "from_pretrained('Qwen/Qwen3-0.6B', dtype=torch.float32)\n"


@pytest.mark.parametrize(
    ("config", "left"),
    [
        ("bf16=cli.half", "cli.half"),
        ("bf16=False, fp16=cli.half", "cli.half"),
        ("bf16=cli.half, fp16=cli.ds", "cli.half or cli.ds"),
        ("bf16=False", ""),
    ],
)
def test_products_of_float32_weights_as_the_run_decides(tmp_path: Path, config: str, left: str) -> None:
    lines = f"{CLI}model = AutoModelForCausalLM.{PRODUCTS}args = SFTConfig('out', {config})\n"
    found = ported(tmp_path, lines)
    assert found.status == "ported", found.findings
    given = f", compute_dtype=jnp.bfloat16 if {left} else None" if left else ""
    assert loaded(found).startswith(f", dtype=jnp.float32{given})")


def test_products_that_are_decided_behind_the_model_are_a_warning(tmp_path: Path) -> None:
    lines = f"model = AutoModelForCausalLM.{PRODUCTS}{CLI}args = SFTConfig('out', bf16=cli.half)\n"
    said = [
        finding.severity for finding in ported(tmp_path, lines).findings if "Autocast multiplies" in finding.message
    ]
    assert said == ["warning"]


@pytest.mark.parametrize(
    ("config", "change", "halved"),
    [
        ("", "args.seed = 3", True),  # TRL's own default
        ("", "setattr(args, 'seed', 3)", True),
        ("bf16=True", "args.seed = 3", True),
        ("bf16=False, fp16=True", "args.seed = 3", True),
        ("bf16=False", "args.seed = 3", False),
        ("", "setattr(args, 'bf16', False)", False),
        ("", "setattr(args, cli.ds, False)  # bf16, for all that is known", False),
        ("", "args.bf16 = False", False),
    ],
)
def test_products_that_a_kept_config_surely_asks_for(tmp_path: Path, config: str, change: str, halved: bool) -> None:
    lines = f"{CLI}model = AutoModelForCausalLM.{PRODUCTS}args = SFTConfig('out', {config})\n{change}\n"
    found = ported(tmp_path, lines)
    assert loaded(found).startswith(FLOAT32 if halved else ", dtype=jnp.float32)")
    said = [finding for finding in found.findings if "Autocast multiplies" in finding.message]
    assert bool(said) is ("bf16" in change)
    assert not (halved and any("a GPU in float32" in finding.message for finding in found.findings))

"""DeepSpeed configs: what they set, what they contradict, and that every setting has a fate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.errors import InputError
from porter.front.port_file import port_file
from porter.port import Options, Port

SCRIPT = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

rows = load_dataset("json", data_files="rows.jsonl", split="train")
args = SFTConfig(
    output_dir="out",
    learning_rate=1e-4,
    lr_scheduler_type="cosine",
    warmup_steps=10,
    gradient_accumulation_steps=4,
    weight_decay=0.1,
    bf16=True,{more}
)
trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args=args, train_dataset=rows)
trainer.train()
"""
ZERO: dict[str, Any] = {
    "zero_optimization": {"stage": 3, "overlap_comm": True, "offload_optimizer": {"device": "cpu", "pin_memory": True}},
    "bf16": {"enabled": "auto"},
    "gradient_clipping": "auto",
    "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
}
ADAM = {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}}


def ported(folder: Path, config: dict[str, Any], *, inside: bool = False, more: str = "") -> Port:
    (folder / "ds.json").write_text(json.dumps(config, indent=2))
    text = SCRIPT.replace("{more}", f'\n    deepspeed="ds.json",{more}' if inside else more)
    (folder / "train.py").write_text(text)
    launch = None if inside else folder / "ds.json"
    return port_file(folder / "train.py", Options(launch_config=launch, processes=8))


def fates(port: Port) -> dict[str, str]:
    return {row.source.removeprefix("ds.json: "): row.fate for row in port.fields if row.source.startswith("ds.json: ")}


@pytest.mark.parametrize("inside", [False, True])
def test_zero_ports_like_fsdp(tmp_path: Path, inside: bool) -> None:
    port = ported(tmp_path, ZERO, inside=inside)
    assert port.status == "ported", port.findings
    assert fates(port) == {
        "distributed_type": "exact",
        "zero_optimization.stage": "exact",
        "zero_optimization.overlap_comm": "exact",
        "zero_optimization.offload_optimizer.device": "dropped",
        "zero_optimization.offload_optimizer.pin_memory": "dropped",
        "bf16.enabled": "exact",
        "gradient_clipping": "exact",
        "gradient_accumulation_steps": "exact",
        "train_batch_size": "exact",
        "train_micro_batch_size_per_gpu": "exact",
    }
    assert "dtype=jnp.float32, compute_dtype=jnp.bfloat16" in port.after


def test_deepspeeds_optimizer_and_schedule_take_the_arguments_place(tmp_path: Path) -> None:
    scheduler = {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10, "warmup_type": "linear"}}
    port = ported(tmp_path, ZERO | {"optimizer": ADAM, "scheduler": scheduler}, more='\n    optim="adafactor",')
    assert port.status == "ported", port.findings
    assert 'rt.hf_schedule(\n    "WarmupDecayLR"' in port.after or 'rt.hf_schedule("WarmupDecayLR"' in port.after
    assert "'warmup_type': 'linear'" in port.after or '"warmup_type": "linear"' in port.after
    assert "optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.1)" in port.after
    rows = {row.source: (row.fate, row.reason) for row in port.fields}
    assert rows["SFTConfig.optim"] == ("dropped", "DeepSpeed's AdamW takes its place")
    assert rows["SFTConfig.lr_scheduler_type"] == ("dropped", "DeepSpeed's WarmupDecayLR takes its place")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"gradient_accumulation_steps": 2}, "is 2, but gradient_accumulation_steps is 4"),
        ({"train_micro_batch_size_per_gpu": 1}, "is 1, but per_device_train_batch_size is 8"),
        ({"train_batch_size": 32}, "is 32, but processes x per_device_train_batch_size"),
        ({"gradient_clipping": 0.3}, "is 0.3, but max_grad_norm is 1.0"),
        ({"bf16": {"enabled": False}}, "bf16.enabled is False, but bf16 is True"),
        ({"optimizer": {"type": "AdamW", "params": {"lr": 3e-5}}}, "optimizer.params.lr is 3e-05, but learning_rate"),
        ({"optimizer": {"type": "AdamW", "params": {"betas": [0.8, 0.9]}}}, "but adam_beta1 and adam_beta2 is"),
        ({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}}, "is 5, but warmup_steps is 10"),
    ],
)
def test_a_value_that_contradicts_the_script_is_named(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    port = ported(tmp_path, ZERO | config)
    assert port.status == "partial"
    errors = [finding.message for finding in port.findings if finding.severity == "error"]
    assert len(errors) == 1 and said in errors[0] and "transformers doesn't start with both" in errors[0]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"optimizer": {"type": "OneBitAdam", "params": {}}}, "only AdamW and Adam of DeepSpeed's optimizers"),
        ({"scheduler": {"type": "OneCycle", "params": {}}}, "only WarmupLR, WarmupDecayLR and WarmupCosineLR"),
        ({"curriculum_learning": {"enabled": True}}, "it changes the rows of a step"),
        ({"tensor_parallel": {"autotp_size": 2}}, "fewer than all processes read rows of their own"),
        ({"quantize_training": {"enabled": True}}, "no setting of DeepSpeed's that tpu-port knows"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    port = ported(tmp_path, ZERO | config)
    assert port.status == "partial" and said in " ".join(finding.message for finding in port.findings)


def test_equal_values_are_no_contradiction(tmp_path: Path) -> None:
    equal = {"gradient_accumulation_steps": 4, "train_batch_size": 256, "gradient_clipping": 1}
    assert ported(tmp_path, ZERO | equal).status == "ported"


def test_a_share_of_the_steps_is_no_number_that_could_differ(tmp_path: Path) -> None:
    config = ZERO | {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}}
    (tmp_path / "ds.json").write_text(json.dumps(config))
    text = SCRIPT.replace("{more}", "").replace("warmup_steps=10", "warmup_ratio=0.1")
    (tmp_path / "train.py").write_text(text)
    port = port_file(tmp_path / "train.py", Options(launch_config=tmp_path / "ds.json", processes=8))
    assert port.status == "ported", port.findings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "a": "x // y", // why\n}', "ds.json:2: is no JSON: it has a comment"),
        ('{"a": 1,}', "is no JSON: "),
        ('{"a": 1}', "is no DeepSpeed config"),
        ("[1]", "is no DeepSpeed config"),
    ],
)
def test_a_json_that_is_none_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("{more}", ""))
    (tmp_path / "ds.json").write_text(text)
    with pytest.raises(InputError) as error:
        port_file(tmp_path / "train.py", Options(launch_config=tmp_path / "ds.json"))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_file_named_in_the_script_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("{more}", '\n    deepspeed="ds.json",'))
    port = port_file(tmp_path / "train.py")
    assert port.status == "partial" and "deepspeed=" in port.after
    (tmp_path / "ds.json").write_text("{ // no\n}")
    said = [finding.message for finding in port_file(tmp_path / "train.py").findings if finding.severity == "error"]
    assert len(said) == 1 and "it has a comment" in said[0]


def test_a_dictionary_in_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("{more}", f"\n    deepspeed={json.loads(json.dumps(ZERO))!r},"))
    port = port_file(tmp_path / "train.py", Options(processes=2))
    assert port.status == "ported", port.findings
    assert any(row.source == "train.py: zero_optimization.stage" for row in port.fields)


@pytest.mark.parametrize(("given", "kind"), [("", "a default"), (" max_grad_norm=0.3,", "given")])
def test_without_gradient_clipping_nothing_clips(tmp_path: Path, given: str, kind: str) -> None:
    unclipped = {name: value for name, value in ZERO.items() if name != "gradient_clipping"}
    port = ported(tmp_path, unclipped, inside=True, more=given)
    assert port.status == "ported" and "clip_by_global_norm" not in port.after, kind
    said = [finding for finding in port.findings if "no gradient_clipping" in finding.message.lower()]
    rows = [row for row in port.fields if row.source.endswith(".max_grad_norm")]
    assert len(said) == (not given) and [row.fate for row in rows] == (["dropped"] if given else [])
    assert "clip_by_global_norm" in ported(tmp_path, ZERO, inside=True, more=given).after


def test_a_kept_config_reads_its_file_when_it_runs(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}}))
    text = SCRIPT.replace("{more}", '\n    deepspeed="ds.json",').replace(
        "\ntrainer =", "\nprint(vars(args))\ntrainer ="
    )
    (tmp_path / "train.py").write_text(text)
    port = port_file(tmp_path / "train.py", Options(processes=8))
    assert port.status == "ported", port.findings
    assert 'deepspeed="ds.json"' in port.after and "rt.clip_by_global_norm(args.max_grad_norm)" in port.after


def test_a_kept_config_that_the_launch_file_contradicts(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": 2}}))
    text = SCRIPT.replace("{more}", "").replace("\ntrainer =", "\nprint(vars(args))\ntrainer =")
    (tmp_path / "train.py").write_text(text)
    port = port_file(tmp_path / "train.py", Options(launch_config=tmp_path / "ds.json", processes=8))
    errors = [finding for finding in port.findings if "no gradient_clipping" in finding.message]
    assert len(errors) == 1 and errors[0].fix == "Set args.max_grad_norm = 0 before the trainer."


@pytest.mark.parametrize("config", [{}, {"optimizer": ADAM}, {"scheduler": {"type": "WarmupLR", "params": {}}}])
def test_what_the_kept_config_takes_over_itself_is_not_asked_for(tmp_path: Path, config: dict[str, Any]) -> None:
    unclipped = {name: value for name, value in ZERO.items() if name != "gradient_clipping"} | config
    (tmp_path / "ds.json").write_text(json.dumps(unclipped))
    for given, said in (("os.environ['DS']", False), ("None", True)):
        text = SCRIPT.replace("{more}", f"\n    deepspeed={given},").replace(
            "\ntrainer =", "\nprint(vars(args))\ntrainer ="
        )
        (tmp_path / "train.py").write_text(f"import os\n{text}".replace("weight_decay=0.1", "weight_decay=0.0"))
        port = port_file(tmp_path / "train.py", Options(launch_config=tmp_path / "ds.json", processes=8))
        found = [finding for finding in port.findings if finding.rule == "TP402" and finding.severity == "error"]
        assert bool(found) == said, (given, port.findings)


def test_a_key_that_deepspeed_ignores_is_a_warning(tmp_path: Path) -> None:
    port = ported(tmp_path, ZERO | {"gradient_checkpointing": True})
    found = [
        finding for finding in port.findings if "gradient_checkpointing=True: DeepSpeed ignores it" in finding.message
    ]
    assert port.status == "ported" and [finding.severity for finding in found] == ["warning"]
    assert fates(port)["gradient_checkpointing"] == "dropped"


UNCOUNTED = {name: value for name, value in ZERO.items() if name != "gradient_accumulation_steps"}
TWO: dict[str, Any] = {"stage": 2, "offload_optimizer": {"device": "cpu"}}


@pytest.mark.parametrize(
    ("pins", "zero", "said"),
    [
        ("transformers==4.44.1\naccelerate==1.0.1\ntrl==0.11.4", {}, "each micro-batch is a step of its own"),
        ("transformers==4.57.1\naccelerate==1.7.0", {}, "each micro-batch is a step of its own"),
        ("transformers==4.44.1\naccelerate==1.8.1\ntrl==0.11.4", {}, "each micro-batch is a step of its own"),
        ("transformers==4.51.3", {}, "each micro-batch is a step of its own"),
        ("transformers==4.57.1\naccelerate==1.8.0", {}, ""),
        ("transformers==4.44.1\naccelerate==0.18.0\ntrl==0.11.4", {}, ""),  # older than all that are recorded
        ("transformers==4.57.1", {}, ""),
        ("", {}, ""),
        ("", {"zero_optimization": TWO}, "has its last micro-batch alone"),
        ("", {"zero_optimization": {"stage": 2, "cpu_offload": True}}, "has its last micro-batch alone"),
        ("", {"zero_optimization": TWO | {"stage": 3}}, ""),
    ],
)
def test_accumulation_that_the_file_leaves_out(tmp_path: Path, pins: str, zero: dict[str, Any], said: str) -> None:
    (tmp_path / "requirements.txt").write_text(pins)
    port = ported(tmp_path, UNCOUNTED | zero, inside=True)
    found = [finding for finding in port.findings if "no gradient_accumulation_steps" in finding.message.lower()]
    assert len(found) == bool(said) and port.status == ("partial" if said else "ported"), port.findings
    assert all(said in finding.message and finding.severity == "error" for finding in found)


@pytest.mark.parametrize(("steps", "severity"), [("1", []), ("int(os.environ['N'])", ["warning"])])
def test_accumulation_that_the_run_decides_is_a_warning(tmp_path: Path, steps: str, severity: list[str]) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.44.1\ntrl==0.11.4")
    text = SCRIPT.replace("{more}", f"\n    deepspeed={UNCOUNTED!r},").replace("steps=4", f"steps={steps}")
    (tmp_path / "train.py").write_text(f"import os\n{text}")
    found = port_file(tmp_path / "train.py", Options(processes=8)).findings
    assert [one.severity for one in found if "no gradient_accumulation_steps" in one.message.lower()] == severity


def test_a_file_that_accelerate_is_given_has_one_micro_batch_a_step(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(UNCOUNTED))
    launch = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    (tmp_path / "launch.yaml").write_text(launch)
    (tmp_path / "train.py").write_text(SCRIPT.replace("{more}", ""))
    port = port_file(tmp_path / "train.py", Options(launch_config=tmp_path / "launch.yaml"))
    errors = [finding.message for finding in port.findings if finding.severity == "error"]
    assert len(errors) == 1 and "transformers doesn't start with both" in errors[0]


ACCELERATES = """\
deepspeed_config:
  deepspeed_multinode_launcher: standard
  offload_optimizer_device: none
  offload_optimizer_nvme_path: null
  offload_param_device: none
  offload_param_nvme_path: null
  zero3_init_flag: true
  zero3_save_16bit_model: true
  zero_stage: 3
distributed_type: DEEPSPEED
mixed_precision: bf16
num_processes: 8
"""


@pytest.mark.parametrize("bf16", ["True", "False", "torch.cuda.is_bf16_supported()"])
def test_what_accelerate_config_writes_is_ported(tmp_path: Path, bf16: str) -> None:
    (tmp_path / "zero3.yaml").write_text(ACCELERATES)
    (tmp_path / "train.py").write_text(SCRIPT.replace("{more}", "").replace("bf16=True", f"bf16={bf16}"))
    port = port_file(tmp_path / "train.py", Options(launch_config=tmp_path / "zero3.yaml"))
    assert port.status == "ported", port.findings
    assert not [finding for finding in port.findings if finding.severity in ("error", "warning")]
    fates = {row.source: row.fate for row in port.fields}
    assert fates["zero3.yaml: zero3_init_flag"] == fates["zero3.yaml: zero3_save_16bit_model"] == "exact"
    assert fates["zero3.yaml: offload_optimizer_nvme_path"] == "dropped"
    assert fates["SFTConfig.bf16"] == ("changed" if bf16 == "True" else "dropped")
    assert "dtype=jnp.float32, compute_dtype=jnp.bfloat16" in port.after


def test_a_value_of_another_kind_ends_with_one_full_stop(tmp_path: Path) -> None:
    port = ported(tmp_path, ZERO | {"zero_optimization": {"stage": "three"}})
    assert [one.message for one in port.findings if one.message.endswith("the release wants int here.")]


FLAG = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--ds", default="{default}")
flags = parser.parse_args()
"""


def ported_by_flag(folder: Path, config: dict[str, Any], *, default: str = "ds.json", decay: float = 0.0) -> Port:
    (folder / "ds.json").write_text(json.dumps(config, indent=2))
    text = SCRIPT.replace("{more}", "\n    deepspeed=flags.ds,").replace("weight_decay=0.1", f"weight_decay={decay}")
    (folder / "train.py").write_text(FLAG.replace("{default}", default) + text)
    return port_file(folder / "train.py", Options(processes=8))


@pytest.mark.parametrize(
    "more",
    [{}, {"optimizer": ADAM}, {"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4}}}],
)
def test_a_file_that_a_flag_names_by_default_is_read_when_the_script_starts(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """It was called refused, whatever it holds."""
    port = ported_by_flag(tmp_path, ZERO | more)
    assert port.status == "ported", port.findings
    assert "deepspeed=flags.ds" in port.after and "SFTBatches.from_args(" in port.after
    (fate,) = [row.fate for row in port.fields if row.source == "SFTConfig.deepspeed"]
    assert fate == "changed"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"optimizer": {"type": "Lion", "params": {}}}, "optimizer.type=Lion"),
        (
            {"optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}},
            "optimizer.params.lr=0.0003: learning_rate is 0.0001",
        ),
        ({"bf16": {"enabled": False}}, "bf16.enabled=False: bf16 is True"),
    ],
)
def test_what_of_that_file_ends_the_port_is_named(tmp_path: Path, more: dict[str, Any], says: str) -> None:
    port = ported_by_flag(tmp_path, ZERO | more)
    (said,) = [each.message for each in port.findings if each.severity == "error"]
    assert port.status == "partial" and says in said
    assert said.startswith("deepspeed=flags.ds: its default is 'ds.json', with which the port ends at its start: ")


def test_what_deepspeeds_optimizer_decays_is_named(tmp_path: Path) -> None:
    (said,) = [
        each
        for each in ported_by_flag(tmp_path, ZERO | {"optimizer": ADAM}, decay=0.1).findings
        if each.severity == "error"
    ]
    assert "decays norms and biases" in said.message


def test_a_file_that_a_flag_names_by_default_and_that_is_not_there(tmp_path: Path) -> None:
    port = ported_by_flag(tmp_path, ZERO, default="elsewhere.json")
    (said,) = [each for each in port.findings if "elsewhere.json" in each.message]
    assert port.status == "ported" and said.severity == "warning" and "which is not there" in said.message

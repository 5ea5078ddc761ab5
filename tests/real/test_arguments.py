"""The torch-free parser against TRL's own: the same command lines and YAML give the same values."""

import dataclasses
import enum
import logging
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from porter.runtime import arguments
from porter.runtime.arguments import trl_arguments
from porter.runtime.facts.field_tables import find_table

pytestmark = pytest.mark.real

# On a machine without a GPU the real class refuses bf16 unless told to use the CPU.
CPU = ["--use_cpu"]
LINES: list[list[str]] = [
    [],
    ["--learning_rate", "2e-4", "--warmup_steps", "0.03", "--lr_scheduler_type", "cosine"],
    ["--warmup_ratio", "0.1", "--logging_steps", "0.05", "--eval_strategy", "steps"],
    ["--eval_strategy", "epoch", "--save_strategy", "no", "--bf16", "false"],
    ["--no_gradient_checkpointing", "--packing", "--packing_strategy", "wrapped", "--max_length", "none"],
    ["--gradient-checkpointing", "False", "--pad_to_multiple_of", "8", "--eval_packing", "true"],
    ["--lr_scheduler_kwargs", '{"num_cycles": "3", "x": {"y": "true", "z": "0.5"}}', "--optim", "lion_32bit"],
    ["--model_init_kwargs", '{"dtype": "bfloat16"}', "--dataset_kwargs", '{"skip_prepare_dataset": "True"}'],
    ["--report_to", "tensorboard", "--run_name", "r", "--output_dir", "~/somewhere", "--seed", "7", "--data_seed", "3"],
    [
        "--loss_type",
        "chunked_nll",
        "--assistant_only_loss",
        "--completion_only_loss",
        "False",
        "--eos_token",
        "<|end|>",
    ],
    ["--model_name_or_path", "m", "--use_peft", "--lora_r", "32", "--lora_target_modules", "all-linear"],
    ["--lora_target_modules", "q_proj", "v_proj", "--lora_dropout", "0", "--use_rslora", "--dtype", "auto"],
    ["--dataset_name", "d", "--dataset_config", "c", "--dataset_test_split", "validation", "--max_steps", "12"],
    ["--adam_beta2", "0.95", "--max_grad_norm", "0.3", "--weight_decay", "0.1", "--save_total_limit", "2"],
    ["--hub_model_id", "a/b", "--push_to_hub", "--resume_from_checkpoint", "out/100", "--fsdp"],
    ["--fsdp", "full_shard auto_wrap", "--fsdp_config", '{"fsdp_version": 2}', "--per_device_train_batch_size", "3"],
]
YAML = {
    "model_name_or_path": "Qwen/Qwen3-0.6B",
    "learning_rate": "2e-5",  # YAML reads 2e-5 as text
    "max_length": 512,
    "gradient_accumulation_steps": 4,
    "use_peft": True,
    "lora_target_modules": ["q_proj", "v_proj"],
    "lr_scheduler_kwargs": {"num_cycles": 2},
    "datasets": [{"path": "a", "columns": ["text"]}, {"path": "b", "split": "test", "fraction": 0.5}],
    "test_split_size": 0.1,
    "env": {"TPU_PORT_TEST": 3},
}
CLASSES = ("ScriptArguments", "SFTConfig", "ModelConfig", "DatasetMixtureConfig")


def _parsers() -> tuple[Any, Any]:
    import trl

    return (
        arguments.TrlParser(tuple(getattr(arguments, name) for name in CLASSES)),
        trl.TrlParser(tuple(getattr(trl, name) for name in CLASSES)),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    return [_plain(entry) for entry in value] if isinstance(value, list) else value


def _same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    for name, our, their in zip(CLASSES, ours, theirs, strict=True):
        table = find_table({"SFTConfig": "trl.SFTConfig"}.get(name, f"trl.{name}"))
        for row in table.rows().values():
            if row.place and not row.place.startswith("mesh.") and row.name != "accelerator_config":
                assert _plain(getattr(our, row.name)) == _plain(getattr(their, row.name)), row.name


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line)[:40])
def test_a_command_line_means_the_same(line: list[str]) -> None:
    ours, theirs = _parsers()
    _same(ours.parse_args_and_config([*line, *CPU]), theirs.parse_args_and_config([*line, *CPU]))


def test_a_yaml_file_means_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "sft.yaml"
    config.write_text(yaml.safe_dump(YAML))
    line = ["--config", str(config), "--max_length", "256", *CPU]  # the command line wins
    ours, theirs = _parsers()
    monkeypatch.setenv("TPU_PORT_TEST", "before")
    parsed = ours.parse_args_and_config(line)
    import os

    assert os.environ["TPU_PORT_TEST"] == "3"
    _same(parsed, theirs.parse_args_and_config(line))
    assert parsed[1].max_length == 256 and parsed[1].learning_rate == 2e-5
    assert parsed[3].datasets[1].fraction == 0.5


def test_unknown_arguments_fail_alike(tmp_path: Path) -> None:
    config = tmp_path / "sft.yaml"
    config.write_text("learning_rate: 1e-4\nno_such_key: 3\n")
    for parser in _parsers():
        with pytest.raises(ValueError, match="Unknown arguments from config file"):
            parser.parse_args_and_config(["--config", str(config), *CPU])
        with pytest.raises(ValueError, match="not used by the HfArgumentParser"):
            parser.parse_args_and_config(["--no_such_flag", "3", *CPU], fail_with_unknown_args=False)
        with pytest.raises(SystemExit):
            parser.parse_args_and_config(["--optim", "no_such_optimizer", *CPU])
        parser.parse_args_and_config(["--config", str(config), *CPU], fail_with_unknown_args=False)
        line = ["--config", str(config), "--other", "1", *CPU]
        rest = parser.parse_args_and_config(line, return_remaining_strings=True)[-1]
        assert rest == ["--no_such_key", "3", "--other", "1"]
        parted = parser.parse_args_and_config(line, return_remaining_strings=True, separate_remaining_strings=True)
        assert parted[-2:] == (["--no_such_key", "3"], ["--other", "1"])


def test_all_flags_are_there() -> None:
    ours, theirs = (set(parser._option_string_actions) for parser in _parsers())
    assert ours == theirs


def test_invalid_values_fail_alike() -> None:
    ours, theirs = _parsers()
    bad = [
        ["--fp16", "--bf16", "true"],
        ["--logging_steps", "2.5"],
        ["--load_in_4bit", "--load_in_8bit"],
        ["--warmup_steps", "-1"],
        ["--logging_steps", "0"],
    ]
    for line in bad:
        for parser in (ours, theirs):
            with pytest.raises(ValueError):
                parser.parse_args_and_config([*line, *CPU])


def test_what_cannot_be_ported_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"SFTConfig can't be ported with\s+.*eval_delay=2: Tunix"):
        arguments.SFTConfig(eval_delay=2)
    with pytest.raises(ValueError, match="loss_type"):
        arguments.SFTConfig(loss_type="dft")
    with pytest.raises(ValueError, match="optim='lomo'"):
        arguments.SFTConfig(optim="lomo")
    with pytest.raises(ValueError, match="use_dora"):
        arguments.LoraConfig(use_dora=True)
    assert arguments.ModelConfig(load_in_4bit=True).load_in_4bit  # quantised bases are ported
    capsys.readouterr()
    arguments.SFTConfig(dataloader_num_workers=4, ddp_timeout=60)
    said = capsys.readouterr().err
    assert said.splitlines() == ["SFTConfig: without effect on a TPU: dataloader_num_workers, ddp_timeout"]
    arguments.SFTConfig()
    arguments.ModelConfig()
    arguments.LoraConfig(task_type="CAUSAL_LM", init_lora_weights="gaussian", bias="none")
    assert capsys.readouterr().err == ""


def test_the_lora_config_of_a_command_line_is_pefts() -> None:
    import trl

    settings = {"use_peft": True, "lora_r": 4, "lora_alpha": 7, "lora_target_modules": ["q_proj", "v_proj"]}
    ours = arguments.get_peft_config(arguments.ModelConfig(**settings))
    theirs = trl.get_peft_config(trl.ModelConfig(**settings))
    assert arguments.get_peft_config(arguments.ModelConfig()) is None
    for name in ("r", "lora_alpha", "lora_dropout", "bias", "use_rslora", "use_dora", "modules_to_save"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert set(ours.target_modules) == theirs.target_modules
    assert arguments.get_quantization_config(arguments.ModelConfig()) is None
    assert arguments.get_kbit_device_map() is None


def test_older_releases_keep_their_names_and_defaults() -> None:
    sft = trl_arguments("0.11.4", "SFTConfig")
    old = sft("out", max_seq_length=77)
    assert old.learning_rate == 5e-5 and old.gradient_checkpointing is False and old.bf16 is False
    assert old.max_seq_length == old.max_length == 77
    assert old.completion_only_loss is False and old.assistant_only_loss is False
    assert old.average_tokens_across_devices is False
    with pytest.raises(TypeError):
        sft("out", assistant_only_loss=True)
    model, script = trl_arguments("0.16", "ModelConfig", "ScriptArguments")
    assert model(torch_dtype="bfloat16").dtype == "bfloat16"
    with pytest.raises(TypeError):
        script()  # dataset_name was required
    with pytest.raises(ValueError, match="NoSuchConfig"):
        trl_arguments("0.16", "NoSuchConfig")


def test_every_release_makes_all_its_classes() -> None:
    for version in ("0.9.6", "0.12", "0.15", "0.16", "0.19", "0.22", "0.27", "1.0", "1.9", "1.16.0", "2.0"):
        classes = trl_arguments(version, "SFTConfig", "TrainingArguments", "ModelConfig")
        for kind in classes:
            kind("out")
        arguments.TrlParser(classes[::2])


def test_loading_follows_trl(capsys: pytest.CaptureFixture[str]) -> None:
    import jax.numpy as jnp

    from porter.runtime.models.loading import load_arguments

    sft = arguments.SFTConfig
    assert load_arguments(sft()) == {"dtype": jnp.float32, "compute_dtype": jnp.bfloat16, "revision": None}
    given = {"dtype": "auto", "revision": "v1", "attn_implementation": "sdpa", "trust_remote_code": False}
    assert load_arguments(sft(bf16=False, model_init_kwargs=given)) == {
        "dtype": None,
        "compute_dtype": None,
        "revision": "v1",
    }
    older = {"torch_dtype": "bfloat16"}
    for release, found in (("1.16.0", jnp.float32), ("0.27.2", jnp.float32), ("0.26.2", jnp.bfloat16)):
        made = arguments.trl_arguments(release, "SFTConfig")(model_init_kwargs=older)
        assert load_arguments(made)["dtype"] is found, release
    assert "torch_dtype=bfloat16 has no effect" in capsys.readouterr().err
    assert load_arguments(sft(model_init_kwargs=older))["dtype"] is jnp.float32
    assert load_arguments(sft(model_init_kwargs=older | {"dtype": None}))["dtype"] is jnp.bfloat16
    assert load_arguments(arguments.ORPOConfig(model_init_kwargs=older))["dtype"] is None
    early = arguments.trl_arguments("0.26.2", "SFTConfig")()
    assert load_arguments(early, transformers="5.0.0")["dtype"] is None
    assert (
        load_arguments(sft(model_init_kwargs={"trust_remote_code": True}))["revision"] is None
    )  # as beside from_pretrained: Tunix has its own code
    older, orpo = (arguments.trl_arguments(release, "ORPOConfig") for release in ("0.15.2", "1.16.0"))
    assert load_arguments(orpo())["dtype"] is None and load_arguments(older())["dtype"] is jnp.float32
    for made, release in ((older, None), (sft, "4.57.1")):
        given = made(model_init_kwargs={"torch_dtype": None})
        assert load_arguments(given, transformers=release)["dtype"] is jnp.float32
    assert load_arguments(sft(model_init_kwargs={"dtype": None}))["dtype"] is None
    with pytest.raises(ValueError, match="subfolder"):
        load_arguments(sft(model_init_kwargs={"subfolder": "x"}))
    with pytest.raises(ValueError, match="float8"):
        load_arguments(sft(model_init_kwargs={"dtype": "float8"}))


def test_trained_weights_are_float32_under_deepspeed_and_fsdp() -> None:
    import jax.numpy as jnp

    from porter.runtime.models.loading import load_arguments, weight_types

    made = arguments.SFTConfig(model_init_kwargs={"dtype": "bfloat16"}, bf16=True)
    mixed = {"dtype": jnp.float32, "compute_dtype": jnp.bfloat16, "revision": None}
    assert load_arguments(made)["dtype"] is jnp.bfloat16
    assert load_arguments(made, sharded=True) == mixed
    assert load_arguments(made, sharded=True, frozen=True)["dtype"] is jnp.bfloat16
    assert load_arguments(arguments.SFTConfig(model_init_kwargs={"dtype": "bfloat16"}, fsdp="full_shard")) == mixed
    whole = arguments.SFTConfig(model_init_kwargs={"dtype": "bfloat16"}, bf16=False)
    assert load_arguments(whole, sharded=True)["dtype"] is jnp.bfloat16
    assert weight_types("auto", masters="") == {"dtype": "auto"}
    assert weight_types("auto", masters="ds.json") == {"dtype": jnp.float32, "compute_dtype": jnp.bfloat16}


def test_the_other_ways_to_parse_work(tmp_path: Path) -> None:
    from transformers import HfArgumentParser

    parser = HfArgumentParser((arguments.SFTConfig, arguments.ModelConfig))
    training, model = parser.parse_args_into_dataclasses(["--learning_rate", "1e-3", "--lora_r", "2"])
    assert training.learning_rate == 1e-3 and model.lora_r == 2
    assert training.to_dict()["learning_rate"] == 1e-3 and training.get_warmup_steps(100) == 0
    (tmp_path / "a.yaml").write_text("lora_r: 3\n")
    assert parser.parse_yaml_file(str(tmp_path / "a.yaml"))[1].lora_r == 3


def test_it_runs_without_torch_trl_and_peft() -> None:
    code = """
import sys

class Hidden:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        blocked = name.split(".")[0] in ("torch", "trl", "peft")
        return None if blocked else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Hidden(finder) for finder in sys.meta_path]
from porter.runtime.arguments import (
    DatasetMixtureConfig, ModelConfig, ScriptArguments, SFTConfig, TrlParser, get_peft_config
)
parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig, DatasetMixtureConfig))
script, training, model, mixture = parser.parse_args_and_config()
print(training.learning_rate, get_peft_config(model).r, "jax" in sys.modules, "torch" in sys.modules)
"""
    line = ["--learning_rate", "1e-3", "--use_peft", "--lora_r", "5"]
    done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0.001", "5", "False", "False"], done.stderr
    shown = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert "--per_device_train_batch_size" in shown.stdout, shown.stderr


@pytest.mark.parametrize(
    ("release", "extra", "given", "ends"),
    [
        ("0.8.6", {}, ["--max_len", "4"], False),  # flags, too
        ("0.9.6", {}, [], True),
        ("0.9.6", {"ignore_extra_args": True}, [], False),
        ("0.12.2", {}, [], True),
        ("0.13.0", {}, [], False),
        ("0.18.2", {}, [], False),
        ("0.19.1", {}, [], True),
        (None, {}, [], True),
    ],
)
def test_keys_that_no_class_has_are_the_releases(
    release: str | None,
    extra: dict[str, bool],
    given: list[str],
    ends: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """TRL 0.8 and 0.13 to 0.18 left them alone: Phil Schmid's recipes have `max_seq_len` beside `max_seq_length`."""
    (tmp_path / "recipe.yaml").write_text("max_seq_len: 3072\nlearning_rate: 3.0e-4\noutput_dir: out\n")
    kind = arguments.SFTConfig if release is None else trl_arguments(release, "TrainingArguments")
    parser = arguments.TrlParser((kind,), **extra)
    words = ["--config", str(tmp_path / "recipe.yaml"), *given]
    if ends:
        with pytest.raises(ValueError, match="max_seq_len"):
            parser.parse_args_and_config(words)
        return
    (made,) = parser.parse_args_and_config(words)
    assert made.learning_rate == 3e-4
    assert "no class has --max_seq_len 3072" in capsys.readouterr().err


@pytest.mark.parametrize(("release", "name"), [("0.9.6", "SFTScriptArguments"), ("0.12.2", "ScriptArguments")])
def test_the_scripts_of_before_0_13_have_a_field_named_config(release: str, name: str, tmp_path: Path) -> None:
    """TRL's own sft.py of these releases: the parser reads the file, the field is no dataset's configuration."""
    (tmp_path / "recipe.yaml").write_text("dataset_name: some/rows\nlearning_rate: 3.0e-4\noutput_dir: out\n")
    kinds = trl_arguments(release, name, "SFTConfig")
    words = ["--config", str(tmp_path / "recipe.yaml"), "--dataset_test_split", "held_out"]
    script, training = arguments.TrlParser(kinds).parse_args_and_config(words)
    assert (script.dataset_name, script.dataset_test_split, training.learning_rate) == ("some/rows", "held_out", 3e-4)
    assert script.config is None and script.dataset_config is None
    own = dataclasses.make_dataclass("Own", [("config", str, dataclasses.field(default=None))])
    with pytest.raises(ValueError, match="a field named config"):
        arguments.TrlParser((own, arguments.SFTConfig))


def test_what_the_scripts_of_before_0_13_import_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [arguments.strtobool(text) for text in ("1", "Yes", "off", "0")]
    assert said == [True, True, False, False]
    with pytest.raises(ValueError, match="maybe"):
        arguments.strtobool("maybe")
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    arguments.init_zero_verbose()
    assert logging.root.level == logging.ERROR and warnings.showwarning is not None

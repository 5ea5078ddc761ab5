"""Where the model lies and its type, shown in a line of output: the first device, and the type of Tunix's weights."""

import pytest

from .porting import port, sft_script


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("print('on', model.device)", "print('on', jax.devices()[0])"),
        ("print(f'on {next(model.parameters()).device}')", "print(f'on {jax.devices()[0]}')"),
        ("print(f'Device map: {model.hf_device_map}')", "print(f'Device map: {jax.devices()}')"),
        ("print(str(model.dtype))", "print(str(jax.tree.leaves(nnx.state(model, nnx.Param))[0].dtype))"),
        (
            "logger.info('%s', next(model.parameters()).dtype)",
            "logger.info('%s', jax.tree.leaves(nnx.state(model, nnx.Param))[0].dtype)",
        ),
    ],
)
def test_a_line_that_shows_them(line: str, new: str) -> None:
    head = "import logging\nlogger = logging.getLogger(__name__)\n"
    found = port(sft_script(head, between=line))
    assert found.status == "ported" and f"{new}\n" in found.after


@pytest.mark.parametrize(
    "line",
    [
        "rows = [1] if model.device == 0 else []",
        "place = next(model.parameters()).device",
        "gpus = set(model.hf_device_map.values())",
    ],
)
def test_what_is_made_of_them_is_left_to_a_person(line: str) -> None:
    found = port(sft_script(between=line))
    assert line in found.after and any("model." in finding.message for finding in found.findings)


def test_a_type_that_settings_alone_read_goes_with_them() -> None:
    keywords = ", bf16=True if kind == torch.bfloat16 else False, fp16=kind == torch.float16"
    found = port(sft_script(between="kind = model.dtype", imports="import torch", config=keywords))
    assert found.status == "ported" and "kind" not in found.after
    read = port(sft_script(between="kind = model.dtype\nprint(kind)", imports="import torch", config=keywords))
    assert read.status == "partial" and "kind = model.dtype" in read.after


CONFIG = """\
def compute_type():
    import torch
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
"""


def test_a_comparison_of_types_that_no_line_of_the_port_has_is_not_named() -> None:
    keywords = ", bf16=compute_type() == torch.bfloat16, fp16=compute_type() == torch.float16"
    script = sft_script(CONFIG, imports="import torch", config=keywords)
    found = port(script)
    assert found.status == "ported" and not [finding for finding in found.findings if finding.rule == "TP522"]


def test_a_batch_size_that_the_gpu_run_found_is_a_warning() -> None:
    found = port(sft_script(config=", auto_find_batch_size=True, per_device_train_batch_size=4"))
    said = [(finding.severity, finding.message) for finding in found.findings if finding.rule == "TP301"]
    assert found.status == "ported" and "batch_size=4" in found.after
    assert said == [
        (
            "warning",
            "auto_find_batch_size: the GPU run went on with fewer rows if its memory ran out; the port trains with "
            "per_device_train_batch_size=4.",
        )
    ]
    for value in ("False", "None"):
        plain = port(sft_script(config=f", auto_find_batch_size={value}"))
        assert not [finding for finding in plain.findings if finding.rule == "TP301"]


def test_a_model_of_the_trained_ones_name_that_is_merged_behind_the_training_is_tunixs() -> None:
    """It was torch's, and `rt.merge_and_unload` got it."""
    script = """\
from datasets import load_dataset
from peft import AutoPeftModelForCausalLM, LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def train(model, out):
    model = get_peft_model(model, LoraConfig(target_modules=["q_proj"]))
    trainer = SFTTrainer(model, args=SFTConfig(output_dir=out), train_dataset=load_dataset("x", split="train"))
    trainer.train()
    trainer.model.save_pretrained(out)


out = "out"
train(model, out)
model = AutoPeftModelForCausalLM.from_pretrained(out, device_map="auto")
model = model.merge_and_unload()
model.save_pretrained("merged", safe_serialization=True)
model.push_to_hub("me/merged")
"""
    found = port(script)
    behind = """\
model = rt.load_trained(out, mesh)
model = rt.merge_and_unload(model)
model.save_pretrained("merged", safe_serialization=True)
model.push_to_hub("me/merged")
"""
    assert found.status == "ported" and found.after.endswith(behind) and "import peft" not in found.after


def test_what_torch_makes_on_the_models_device_it_makes_on_the_host() -> None:
    line = "ids = torch.tensor([1, 2], device=model.device)\nprint(ids)"
    found = port(sft_script(imports="import torch", after=f"trainer.train()\n{line}"))
    assert found.status == "ported" and 'torch.tensor([1, 2], device="cpu")' in found.after

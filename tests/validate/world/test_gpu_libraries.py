"""`cuda` is the CPU, and GPU libraries compute by torch's formulas: one process, as a script sees it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter.validate.torch_side.gpu_libraries.flash_attention import is_asked_for, leave_padding_out, part_rows
from tests.validate import forked

RUN = """
import sys
from pathlib import Path
from types import SimpleNamespace
from porter.validate.running.script import run_script
from porter.validate.stand_ins.command_line.variables import provide_environment
from porter.validate.world.start import stand_in_world
told = SimpleNamespace(note=lambda text: None, output=str, settings=SimpleNamespace(dtype="float32", capability=(8, 0)))
stand_in_world(told, "source", [], sys.argv[2])
provide_environment(sys.argv[1], told.note)
sys.exit(run_script(sys.argv[1], [], Path(sys.argv[2])))
"""
SCRIPT = """
import os, torch
import bitsandbytes as bnb
import deepspeed
import torch.distributed as dist
from flash_attn import flash_attn_func, flash_attn_varlen_func
from flash_attn.bert_padding import pad_input, unpad_input
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from vllm import LLM

assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.is_bf16_supported()
device = torch.device("cuda", 0)
assert device.type == "cuda"
for made in (torch.zeros(3, device="cuda:0"), torch.tensor([1.0], device=0), torch.arange(3, device=device),
             torch.zeros_like(torch.ones(2), device="cuda"), torch.ones(2).to(device).cuda(), torch.ones(2).to("cuda")):
    assert made.device.type == "cpu"
generator = torch.Generator(device="cuda").manual_seed(3)
assert isinstance(generator, torch.Generator) and torch.randn(2, generator=generator, device="cuda").shape == (2,)
layer = torch.compile(torch.nn.Linear(3, 1, device="cuda").to(0))
with torch.autocast("cuda", dtype=torch.bfloat16), torch.cuda.amp.autocast():
    assert layer(torch.ones(2, 3)).dtype == torch.float32
dist.init_process_group("nccl")
assert dist.get_world_size() == 1 and int(os.environ["LOCAL_RANK"]) == 0
FSDP(layer, device_id=torch.cuda.current_device())(torch.ones(2, 3)).sum().backward()

# Attention: the varlen function of rows gives what the padded one gives; causal means the last query sees all.
q, k, v = torch.randn(2, 5, 4, 8), torch.randn(2, 5, 2, 8), torch.randn(2, 5, 2, 8)
dense = flash_attn_func(q, k, v, causal=True)
weights = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(2, 2)) / 8**0.5
weights = weights.masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf")).softmax(-1)
assert torch.allclose(dense, torch.einsum("bhqk,bkhd->bqhd", weights, v.repeat_interleave(2, 2)), atol=1e-5)
mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
(flat, places, starts, longest), (keys, *_), (values, *_) = (unpad_input(part, mask) for part in (q, k, v))
flat = flash_attn_varlen_func(flat, keys, values, starts, starts, longest, longest, causal=True)
rows = pad_input(flat, places, 2, 5)
assert torch.allclose(rows[0], dense[0], atol=1e-5) and torch.allclose(rows[1, :3], dense[1, :3], atol=1e-5)

# DeepSpeed: two micro-batches an update, the log warm-up a step behind.
config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
          "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-3, "warmup_num_steps": 4}}}
engine, *_ = deepspeed.initialize(model=layer, model_parameters=layer.parameters(), config=config)
rates = []
for _ in range(8):
    engine.backward(engine(torch.ones(2, 3)).mean())
    engine.step()
    rates.append(round(engine.get_lr()[0], 6))
assert rates == [0.0, 0.0, 0.0, 0.0005, 0.0005, 0.000792, 0.000792, 0.001] and engine.global_steps == 4, rates

assert bnb.optim.AdamW8bit([torch.nn.Parameter(torch.ones(2))], lr=1e-3).defaults["weight_decay"] == 1e-2
assert not isinstance(layer, bnb.nn.Linear4bit)
try:
    LLM("model")
except NotImplementedError as error:
    assert "vllm.LLM needs a GPU" in str(error)
else:
    raise AssertionError("an engine of vLLM's was made")
import peft.import_utils, transformers
assert not peft.import_utils.is_bnb_available() and not transformers.utils.is_flash_attn_2_available()
print("done")
"""


@pytest.mark.real
def test_a_script_for_gpus_runs_on_the_cpu(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = forked.run(RUN, script, tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


@pytest.mark.real
def test_a_deepspeed_config_that_contradicts_the_arguments_ends_the_source() -> None:
    """As transformers does at the start of the training."""
    from transformers import TrainingArguments

    from porter.validate.torch_side.gpu_libraries.deepspeed import take_deepspeed

    config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": "auto", "bf16": {"enabled": True}}
    args = TrainingArguments("out", per_device_train_batch_size=8, gradient_accumulation_steps=4)
    args.deepspeed = config
    with pytest.raises(ValueError, match=r"contradicts the arguments: train_micro_batch_size_per_gpu=1: per_device"):
        take_deepspeed(args, lambda line: None)
    args.deepspeed = config | {"train_micro_batch_size_per_gpu": 8}
    take_deepspeed(args, lambda line: None, half=True)
    assert args.deepspeed is None


def test_unsloth_makes_one_answer_of_a_pair() -> None:
    """transformers 5.3 answers an older TRL `(False, None)`, which would import what isn't there."""
    from porter.validate.torch_side.gpu_libraries.unsloth_parts.newer_transformers import without_versions

    names = {"_mergekit_available": (False, None), "_vllm_available": (True, "0.9"), "_rich_available": True, "n": (0,)}
    without_versions(names)
    assert names == {"_mergekit_available": False, "_vllm_available": True, "_rich_available": True, "n": (0,)}


def test_unsloths_uploads_are_two_of_transformers() -> None:
    from porter.validate.torch_side.gpu_libraries.unsloth import with_methods

    pushed: list[tuple[str, str]] = []

    class Held:
        def __init__(self, name: str) -> None:
            self.name = name

        def push_to_hub(self, repo_id: str) -> None:
            pushed.append((self.name, repo_id))

    model: Any = with_methods(Held("model"), lambda text: None, str)
    model.push_to_hub_merged("me/it", Held("tokenizer"), save_method="merged_16bit", token="x")
    model.push_to_hub_gguf("me/it", Held("tokenizer"))
    assert pushed == [("model", "me/it"), ("tokenizer", "me/it")]
    assert model.warnings_issued == {}


APPLE = """
import torch
print(torch.backends.mps.is_available(), torch.backends.mps.is_built())
device = torch.device("mps")
for made in (torch.zeros(3, device="mps"), torch.ones(2).to(device), torch.nn.Linear(2, 2).to("mps:0").weight):
    assert made.device.type == "cpu"
torch.mps.empty_cache(), torch.mps.manual_seed(3)
with torch.autocast("mps", dtype=torch.float16):
    assert torch.mps.current_allocated_memory() == 0
"""


@pytest.mark.real
@pytest.mark.parametrize(("known", "answers"), [("mps", "True True"), ("mps, cuda", "False False")])
def test_an_apple_gpu_is_the_cpu_too(known: str, answers: str, tmp_path: Path) -> None:
    """A script that knows `cuda` besides is told of that one."""
    script = tmp_path / "script.py"
    script.write_text(APPLE, encoding="utf-8")
    run = RUN.replace("note=lambda text: None", "note=print").replace('"source", []', f'"source", [{known!r}]')
    done = forked.run(run, script, tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert answers in done.stdout and "`mps` was the CPU" in done.stdout


CAST = """
import torch
layer = torch.nn.Linear(2, 2)
for cast in (layer.to(torch.bfloat16), layer.to("cuda", torch.float16), layer.to(device="cuda", dtype=torch.float16),
             layer.half(), layer.bfloat16()):
    assert cast is layer and cast.weight.dtype == torch.float32 and cast.weight.device.type == "cpu"
assert layer.to(torch.float64).weight.dtype == torch.float64
"""


@pytest.mark.real
def test_modules_that_the_script_casts_stay_float32(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CAST, encoding="utf-8")
    run = RUN.replace("note=lambda text: None", "note=print")
    done = forked.run(run, script, tmp_path, cwd=tmp_path)
    assert done.returncode == 0 and "own casts to 16 bits" in done.stdout, done.stderr


PREPARED = """
import torch, transformers
from peft import prepare_model_for_kbit_training
from transformers import BitsAndBytesConfig
from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import hold

sizes = dict(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
for config in (BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype="float32"), None):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=1, **sizes))
    if config is not None:
        hold(model, config)
    model = prepare_model_for_kbit_training(model)
    print(model.is_gradient_checkpointing, model.get_input_embeddings()(torch.tensor([[1]])).requires_grad)
"""


@pytest.mark.real
def test_peft_prepares_a_quantised_base_as_on_a_gpu(tmp_path: Path) -> None:
    """Without gradients at the embedding, a Trainer that checkpoints activations finds nothing to train."""
    script = tmp_path / "script.py"
    script.write_text(PREPARED, encoding="utf-8")
    done = forked.run(RUN, script, tmp_path, cwd=tmp_path)
    assert done.stdout.splitlines() == ["True True", "False False"], done.stderr


@pytest.mark.parametrize(
    ("pin", "looks"),
    [("", True), ("unsloth==2025.3.18", True), ("unsloth==2025.5.9", False), ("unsloth==2026.8.19", True)],
)
def test_unsloth_saw_the_first_character_of_a_text(
    pin: str, looks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that begin with a BOS got a second one then, in the source as in the port."""
    from porter.validate.torch_side.gpu_libraries.unsloth_parts.trl import looks_at_texts

    (tmp_path / "requirements.txt").write_text(pin)
    (tmp_path / "train.py").write_text("import unsloth\n")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    assert looks_at_texts() is looks


@pytest.mark.parametrize(
    ("keywords", "asked"),
    [
        ({"attn_implementation": "flash_attention_2"}, True),
        ({"use_flash_attention_2": True}, True),
        ({"config": SimpleNamespace(_attn_implementation="flash_attention_3")}, True),
        ({"attn_implementation": "sdpa", "use_flash_attention_2": False}, False),
    ],
)
def test_flash_attention_is_asked_for(keywords: dict[str, Any], asked: bool) -> None:
    assert is_asked_for(keywords) is asked


def test_rows_that_flash_attention_parts_are_parted_without_it() -> None:
    """By their places, which TRL 0.19 to 0.23.0 gives to flash attention alone, and without a cache."""
    collator, config = SimpleNamespace(padding_free=True, return_position_ids=False), SimpleNamespace(use_cache=True)
    part_rows(collator, config)
    assert collator.return_position_ids and not config.use_cache
    for others in ({"padding_free": False, "return_position_ids": False}, {"padding_free": True}):
        collator, config = SimpleNamespace(**others), SimpleNamespace(use_cache=True)
        part_rows(collator, config)
        assert vars(collator) == others and config.use_cache


def test_padding_gets_nothing_from_attention_where_flash_attention_leaves_it_out() -> None:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.self_attn = torch.nn.ModuleDict({"o_proj": torch.nn.Linear(2, 2)})
            self.mlp = torch.nn.ModuleDict({"c_proj": torch.nn.Linear(2, 2)})

        def forward(self, hidden: Any, attention_mask: Any = None) -> Any:
            return self.self_attn["o_proj"](hidden), self.mlp["c_proj"](hidden)

    model, hidden = Model(), torch.ones(1, 3, 2)
    plain, others = model(hidden)
    leave_padding_out(model)
    seen, same = model(hidden, attention_mask=torch.tensor([[1, 0, 1]]))
    assert torch.equal(seen[0, 1], model.self_attn["o_proj"].bias) and torch.equal(same, others)
    assert torch.equal(seen[0, ::2], plain[0, ::2]) and torch.equal(model(hidden)[0], plain)

"""A multimodal checkpoint's text part: transformers takes a mean of each micro-batch, and so does the port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.port import Options as PortOptions
from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.options import Options
from porter.validate.run import run_port, run_source

pytestmark = pytest.mark.real

SCRIPT = """\
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

rows = Dataset.from_list([{{"text": "the quick brown fox " * (1 + (7 * i) % 8)}} for i in range(16)])
trainer = SFTTrainer(
    AutoModelForCausalLM.from_pretrained("{model}", dtype="float32"),
    args=SFTConfig("out", max_steps=2, per_device_train_batch_size=2, gradient_accumulation_steps=4, report_to="none"),
    train_dataset=rows,
    processing_class=AutoTokenizer.from_pretrained("{model}"),
    peft_config=LoraConfig(target_modules=r".*language_model.*\\.(q_proj|v_proj)"),
)
trainer.train()
"""


def test_a_step_is_the_mean_of_its_micro_batches_means(tiny: Callable[..., Path], tmp_path: Path) -> None:
    import transformers

    text = tiny("gemma3", num_hidden_layers=2)
    config = transformers.Gemma3Config(
        text_config=transformers.AutoConfig.from_pretrained(text).to_dict(),
        vision_config={
            **dict.fromkeys(("hidden_size", "intermediate_size"), 16),
            **dict.fromkeys(("num_hidden_layers", "num_attention_heads"), 1),
            "image_size": 28,
            "patch_size": 14,
        },
        mm_tokens_per_image=4,
    )
    folder = tmp_path / "model"
    transformers.Gemma3ForConditionalGeneration(config).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(text).save_pretrained(folder)
    source, script = tmp_path / "train.py", tmp_path / "port.py"
    source.write_text(SCRIPT.format(model=folder))
    ported = port_file(source, PortOptions(processes=1)).after
    options = Options(steps=2, mesh=(8, 1))
    trace, _ = run_source(source, options, str(tmp_path), lambda line: None)
    line = next(line for line in ported.splitlines() if "mean_over=" in line)
    differing = []
    for wrong in ("", f"{line}\n"):
        script.write_text(ported.replace(wrong, "") if wrong else ported)
        port = run_port(script, options, str(tmp_path), lambda line: None)
        differing.append([check for check in checks.compare(trace, port, FLOAT32) if check.status == "differs"])
    assert differing[0] == [] and differing[1]

"""Scripts that train on the CPU: what padding in front of a row sees there, and that the report says so."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
# pip install transformers=={release}
import os
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments
{top}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"{load})
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B", padding_side="{side}")
rows = load_dataset("mine/tokens", split="train")
trainer = Trainer(
    model=model,
    args=TrainingArguments("out"{config}),
    train_dataset=rows,
    data_collator=DataCollatorForSeq2Seq(tokenizer),
)
trainer.train()
"""
HIDDEN = 'os.environ["CUDA_VISIBLE_DEVICES"] = "{}"'


def ported(release: str = "4.52.4", side: str = "left", **parts: str) -> tuple[str, str]:
    found = port(SCRIPT.format(**{"release": release, "side": side, "top": "", "load": "", "config": "", **parts}))
    assert found.status == "ported"
    return found.after, " ".join(finding.message for finding in found.findings)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"config": ", no_cuda=True"}, "no_cuda=True: the source trains on the CPU"),
        ({"config": ", use_cpu=True"}, "use_cpu=True: the source trains on the CPU"),
        ({"top": HIDDEN.format("")}, 'os.environ["CUDA_VISIBLE_DEVICES"] = "": the source trains on the CPU'),
        ({"top": HIDDEN.format("-1")}, "the source trains on the CPU"),
        ({"load": ', device_map="cpu"'}, ""),  # the trainer moves it to the GPU: seen on an H200
        ({"load": ', device_map={"": "cpu"}'}, ""),
        ({"load": ', device_map="auto"'}, ""),
        ({"top": HIDDEN.format("0")}, ""),
        ({"top": "settings = {}\n" + HIDDEN.format("").replace("os.environ", "settings")}, ""),
        ({"top": f"{HIDDEN.format('0')}\nos.environ['OTHER'] = ''"}, ""),
        ({"top": f"if input():\n    {HIDDEN.format('')}"}, ""),
        ({"config": ", use_cpu=False"}, ""),
    ],
)
def test_a_run_of_the_cpu_is_said_and_padding_sees_what_it_sees_there(parts: dict[str, str], said: str) -> None:
    after, messages = ported(**parts)
    assert said in messages and ("the source trains on the CPU" in messages) == bool(said)
    assert ('attention="eager",  # decides' in after) == ("torch multiplies its gradient" in messages) == bool(said)


@pytest.mark.parametrize(
    ("release", "side", "load"),
    [("4.53.0", "left", ""), ("4.52.4", "right", ""), ("4.52.4", "left", ', attn_implementation="eager"')],
)
def test_elsewhere_the_cpu_s_padding_is_the_gpu_s(release: str, side: str, load: str) -> None:
    one, messages = ported(release, side, config=", use_cpu=True", load=load)
    other, _ = ported(release, side, load=load)
    assert one.replace(", use_cpu=True", "") == other and "torch multiplies" not in messages

"""TP317: what transformers 4 took beside today's keywords goes from calls that stay, an upload's above all."""

from __future__ import annotations

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options, Port
from porter.source.parsing import parse_module

SCRIPT = """
from datasets import load_dataset
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("Qwen/Qwen3-0.6B", SFTConfig("out"), load_dataset("me/rows", split="train"))
trainer.train()
base = AutoModelForCausalLM.from_pretrained("org/other", return_dict=True{load})
merged = PeftModel.from_pretrained(base, "out").merge_and_unload()
tokenizer = AutoTokenizer.from_pretrained("org/other")
config = AutoConfig.from_pretrained("org/other")
{after}
"""


def ported(after: str = "", load: str = "") -> Port:
    script = SCRIPT.format(after=after, load=load)
    return port_module(parse_module(script.encode(), "train.py"), Options(processes=1))


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        ('merged.push_to_hub("me/x", check_pr=True)', 'merged.push_to_hub("me/x")'),
        ('merged.push_to_hub("me/x", use_temp_dir=False, token=key)', 'merged.push_to_hub("me/x", token=key)'),
        ('base.push_to_hub("me/x", safe_serialization=True, whatever=1)', 'base.push_to_hub("me/x")'),
        ('merged.push_to_hub("me/x", use_auth_token=key)', 'merged.push_to_hub("me/x", token=key)'),
        ('merged.push_to_hub("me/x", use_auth_token=True, token=key)', 'merged.push_to_hub("me/x", token=key)'),
        ('merged.push_to_hub(repo_path_or_name="me/x")', 'merged.push_to_hub(repo_id="me/x")'),
        ('merged.push_to_hub(check_pr=True, use_temp_dir=True, repo_id="me/x")', 'merged.push_to_hub(repo_id="me/x")'),
        ('tokenizer.push_to_hub("me/x", False, "first")', 'tokenizer.push_to_hub("me/x", commit_message="first")'),
        ('config.push_to_hub("me/x", use_temp_dir=True)', 'config.push_to_hub("me/x")'),
        (
            'def push(model):\n    model.push_to_hub("me/x", check_pr=True)\npush(merged)',
            'def push(model):\n    model.push_to_hub("me/x")\npush(merged)',
        ),
        (
            'merged.save_pretrained("x", push_to_hub=True, safe_serialization=True)',
            'merged.save_pretrained("x", push_to_hub=True)',
        ),
    ],
)
def test_an_upload_that_stays_has_todays_keywords(call: str, becomes: str) -> None:
    port = ported(call)
    assert becomes in port.after, port.after


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('merged.push_to_hub("me/x", use_temp_dir=False)', True),
        ('tokenizer.push_to_hub("me/x", False)', True),
        ('merged.push_to_hub("me/x", use_temp_dir=True)', False),
        ('merged.push_to_hub("me/x", private=False)', False),
    ],
)
def test_the_folder_that_an_upload_left_is_said(call: str, said: bool) -> None:
    told = [finding.fix for finding in ported(call).findings if "left what is uploaded" in finding.message]
    assert [fix.startswith(f"{call.split('.')[0]}.save_pretrained(folder)") for fix in told] == [True] * said


@pytest.mark.parametrize(
    "call",
    [
        'merged.push_to_hub("me/x", private=True, tags=["a"], create_pr=True)',
        'merged.save_pretrained("x", safe_serialization=True)',
        'merged.save_pretrained("x", push_to_hub=False, safe_serialization=True)',
        'hub.push_to_hub("me/x", "first", whatever=1)',
    ],
)
def test_what_is_taken_today_and_what_is_not_transformers_stays(call: str) -> None:
    assert call in ported(call).after


def test_an_own_class_is_left_alone() -> None:
    own = "class Card:\n    def push_to_hub(self, name, check_pr):\n        ..."
    own += '\nCard().push_to_hub("me/x", check_pr=True)'
    assert own in ported(own).after


def test_an_address_that_has_no_name_today_is_an_error() -> None:
    found = [each for each in ported('merged.push_to_hub("x", organization="me")').findings if each.rule == "TP317"]
    assert [each.severity for each in found] == ["error"] and "organization" in found[0].message


@pytest.mark.parametrize(
    "more",
    [
        ", resume_download=True",
        ", load_in_8bit=False",
        ", load_in_4bit=False, load_in_8bit=False",
        ", use_flash_attention_2=True",
    ],
)
def test_a_models_load_loses_what_transformers_5_ends_at(more: str) -> None:
    after = ported(load=more).after.replace(', dtype="float32"', "")  # what an older release loads
    assert 'from_pretrained("org/other", return_dict=True)' in after


@pytest.mark.parametrize("more", [", low_cpu_mem_usage=True", ", quantization_config=None", ", use_safetensors=True"])
def test_a_load_that_transformers_5_takes_stays(more: str) -> None:
    assert f'from_pretrained("org/other", return_dict=True{more})' in ported(load=more).after

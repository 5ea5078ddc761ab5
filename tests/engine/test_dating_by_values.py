"""Values that a keyword took once date a script: `report_to=None` before transformers 5."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_module

from .porting import sft_script


def read_as(text: str, script: str = "train.py") -> str:
    found = port_module(parse_module(text.encode(), script), Options())
    return f"{found.recipe.versions['transformers']} {[finding.message for finding in found.findings]}"


def with_config(config: str) -> str:
    text = sft_script(config=config).replace(', dtype="bfloat16"', ', torch_dtype="bfloat16"')
    return text.replace(', report_to="none"', "", 1)


@pytest.mark.parametrize(
    ("config", "release"),
    [
        (', report_to="none"', "5."),
        (", report_to=None", "4.57 "),
        (", report_to=rows or None", "5."),  # the run decides
        (', optim="adamw_hf"', "4.49 "),
        (', optim="adamw_torch"', "5."),
    ],
)
def test_a_value_that_later_releases_refuse(config: str, release: str, tmp_path: Path) -> None:
    assert read_as(with_config(config), str(tmp_path / "train.py")).startswith(release)


@pytest.mark.parametrize(
    ("lines", "release"),
    [
        ("ids = tokenizer.apply_chat_template(chat, tokenize=True)\nstart = len(ids)", "5."),
        ("start = len(tokenizer.apply_chat_template(chat, add_generation_prompt=True))", "5."),
        ("ids = tokenizer.apply_chat_template(chat)\nends = ids[-1] == 2", "5."),
        ("ids = tokenizer.apply_chat_template(chat) + [2]", "4.57"),
        ("ids = tokenizer.apply_chat_template(chat)\nfirst = ids[:5]", "4.57"),
        ("ids = tokenizer.apply_chat_template(chat)\nids = ids['input_ids'] + [2]", "5."),
        ("ids = tokenizer.apply_chat_template(chat, return_dict=False)\nstart = len(ids)", "5."),
        ("ids = tokenizer.apply_chat_template(chat, return_tensors='pt')\nstart = len(ids)", "5."),
        ("text = tokenizer.apply_chat_template(chat, tokenize=False)\nstart = len(text)", "5."),
        ("ids = tokenizer.apply_chat_template(chat)\nstart = len(chat)", "5."),
    ],
)
def test_ids_that_are_taken_as_a_list(lines: str, release: str, tmp_path: Path) -> None:
    before = f"chat = [{{'role': 'user', 'content': 'a'}}]\n{lines}\n"
    text = sft_script(before="tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')\n" + before)
    path = tmp_path / "train.py"
    assert read_as(text, str(path)).startswith(release)
    (tmp_path / "requirements.txt").write_text("transformers==5.4.0\ntrl==0.29.1\n")
    assert read_as(text, str(path)).startswith("5.4.0 (requirements.txt")


def test_where_the_release_is_asked_or_pinned(tmp_path: Path) -> None:
    asked = 'import transformers\nif transformers.__version__ < "5":\n    args = SFTConfig("out", report_to=None)'
    assert read_as(sft_script(asked), str(tmp_path / "train.py")).startswith("5.")
    (tmp_path / "requirements.txt").write_text("transformers==5.4.0\ntrl==0.29.1\n")
    said = read_as(with_config(", report_to=None"), str(tmp_path / "train.py"))
    assert "SFTConfig(report_to=None) (gone in 5.0)" in said

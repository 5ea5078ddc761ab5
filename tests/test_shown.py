"""What is said of a source can't lie: nothing of it steers a terminal, becomes code of the port, or shows a secret."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path

import pytest

from porter.cli import run
from porter.safety.masking import FORMS, find_secrets, is_random, masked
from porter.safety.shown import one_line, visible
from tests.engine.porting import port, sft_script

EVIL = "mixtral\x1b[2J\x1b[1;1Hported: nothing left\x07 to do\u202e\u2066\x9b31m"


def test_what_is_not_seen_is_spelled_out() -> None:
    assert visible("a\x1b[2J\r\u202eb\tc\nd\udc80") == "a\\x1b[2J\\x0d\\u202eb\tc\nd\\udc80"
    assert visible("मनुष्य é 漢字 👩\u200d💻") == "मनुष्य é 漢字 👩\u200d💻"
    assert one_line("a\n# b\r\u2028c") == "a # b c"


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_nothing_of_a_source_steers_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    folder = tmp_path / "a\x1b[31mb\u202e"
    folder.mkdir()
    script = folder / "train\x1b[2J.py"
    text = sft_script(config=f", run_name={EVIL!r}").replace("Qwen/Qwen3-0.6B", ascii(EVIL)[1:-1])
    script.write_text(text + f"# {EVIL}\n", encoding="utf-8")
    for words in ([str(script)], [str(folder)], [str(folder / "none\x1b[1m.py")], ["--sel\x1b[ect", str(script)]):
        run([*words, *flags])
        got = capsys.readouterr()
        for character in "\x1b\x07\x9b\u202e\u2066":
            assert character not in got.out + got.err


def test_a_todo_is_one_comment() -> None:
    found = port(sft_script(trainer=", data_collator=make('''\n)\nimport os; os.system('x')\n''')"))
    assert "TODO" in found.after
    assert not any(isinstance(node, ast.Import) and node.names[0].name == "os" for node in ast.parse(found.after).body)


@pytest.mark.parametrize(
    "value",
    ['a" + __import__("os").popen("id").read() + "b\'', "C:\\temp\\new", "{x}", "a\nb", "'", '"', "\\", "é\u202e\x00"],
)
@pytest.mark.parametrize("form", ['f"{args.output_dir}"', "f'to {args.output_dir}!'", 'f"""{args.output_dir}"""'])
def test_a_value_in_an_f_string_stays_a_value(value: str, form: str) -> None:
    script = sft_script().replace('args=SFTConfig(output_dir="out", max_steps=5, report_to="none")', "args=args")
    script = script.replace("trainer = SFT", f"args = SFTConfig(output_dir={value!a}, max_steps=5)\ntrainer = SFT")
    found = port(f"{script}shown = {form}\n")
    assert found.status in ("ported", "partial"), found.findings
    last = found.after.rstrip().rpartition("shown = ")[2]
    assert eval(last) == eval(form, {"args": type("Args", (), {"output_dir": value})})


TOKEN = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ2bC4dF6h"
SECRETS = {
    TOKEN: f"token={TOKEN!r}",
    "hf_example_not_a_real_one": 'hub_token="hf_example_not_a_real_one"',
    "0123456789abcdef0123456789abcdef01234567": 'WANDB_API_KEY="0123456789abcdef0123456789abcdef01234567"',
    "sk-abcdefghijklmnopqrstuvwx12345678": 'x = "sk-abcdefghijklmnopqrstuvwx12345678"',
    "AKIAIOSFODNN7EXAMPLE": '"AKIAIOSFODNN7EXAMPLE"',
    "alice:s3cr3t-pass": 'clone("https://alice:s3cr3t-pass@host/x.git")',
    "correct-horse-7": "PASSWORD: correct-horse-7",
    "r4nd0mValue": 'os.environ["MY_SECRET"] = "r4nd0mValue"',
    "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRkdISUo": 'x = "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRkdISUo"',
}
NO_SECRETS = [
    'tokenizer.pad_token = "<|endoftext|>"',
    'special_token="[UNUSED_TOKEN]"',
    'eos_token = "long_end_of_text"',
    'token="YOUR_TOKEN_HERE"',
    'hub_token=os.environ["HF_TOKEN"]',
    "token=Constants.HF_TOKEN",
    'revision="0123456789abcdef0123456789abcdef01234567"',
    'model = "meta-llama/Meta-Llama-3.1-8B-Instruct-GGUF-Q4"',
    'url = "https://huggingface.co/datasets/a/b:c@main"',
    'api_key = "OPENAI_API_KEY"',
    'password = "password"',
    'x = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"',
]


@pytest.mark.parametrize("value", SECRETS)
def test_a_secret_is_found_once_and_masked(value: str) -> None:
    found = find_secrets(f"import os\n{SECRETS[value]}\n")
    assert [secret.value for secret in found] == [value]
    assert value not in masked(f"said of {value}", [value])


# One of each form, and of each of its beginnings; put together here, so that nobody's scanner takes them for real.
OF_A_FORM = {
    "Hugging Face token": [head + "a1B" * 12 for head in ("hf_", "api_org_")],
    "OpenAI or Anthropic key": [f"sk-{kind}" + "aB1" * 9 for kind in ("", "proj-", "ant-", "svcacct-")],
    "AWS access key": [head + "A1" * 8 for head in ("AKIA", "ASIA")],
    "GitHub token": [f"gh{kind}_" + "a1" * 18 for kind in "pousr"] + ["github_pat_" + "a1" * 20],
    "GitLab token": ["glpat-" + "a1" * 10],
    "Slack token": [f"xox{kind}-" + "a1" * 5 for kind in "abprs"],
    "Google key": ["AIza" + "a" * 35],
    "Replicate token": ["r8_" + "a1" * 15],
    "JSON web token": [".".join(("eyJ" + "a" * 10, "b" * 10, "c" * 10))],
    "password in a URL": ["https://alice:s3cr3t" + "@host/x.git"],
}


@pytest.mark.parametrize("form", FORMS)
def test_what_has_the_form_of_a_secret_is_masked_wherever_it_is_said(form: str) -> None:
    for value in OF_A_FORM[form]:
        assert value not in masked(f"said of {value} here")


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_is_no_secret(text: str) -> None:
    assert find_secrets(f"{text}\n") == () and masked(text) == text


def test_random_text_is_no_word() -> None:
    assert is_random("Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRkdISUo")
    assert not is_random("q_proj_k_proj_v_proj_o_proj_gate_proj") and not is_random("a" * 40)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_secret_stands_in_the_port_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    script, out = tmp_path / "train.py", tmp_path / "out.py"
    secret = "hf_example_not_a_real_one"
    script.write_text(
        sft_script(
            before=f'from huggingface_hub import login\nlogin(token="{TOKEN}")\n',
            config=f', push_to_hub=True, hub_token="{secret}"',
            load=f', token="{TOKEN}"',
        )
    )
    run([str(script), "-o", str(out), *flags])
    got = capsys.readouterr()
    recipe = (tmp_path / "out.recipe.json").read_text()
    for text in (got.out, got.err, recipe):
        assert secret not in text and TOKEN not in text
    assert "hf_***" in got.out and "TP198" in got.out and TOKEN in out.read_text()
    assert json.loads(recipe)["findings"]


@pytest.mark.parametrize("text", [" \n", "\n", "token ", "token\n", "eyJ-", "token" + " " * 50, "a-", "export "])
def test_secrets_are_looked_for_in_time(text: str) -> None:
    started = time.process_time()
    for head in ("bot", "token ", "token" + " " * 20_000):
        find_secrets(head + text * (60_000 // len(text)) + "!")
    assert time.process_time() - started < 10

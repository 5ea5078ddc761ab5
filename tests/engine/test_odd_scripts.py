"""Scripts written oddly: their ports parse, with each line where it belongs, or have a finding at the line."""

from __future__ import annotations

import ast
import re

import pytest

from .porting import port, sft_script


def test_a_function_that_gathers_the_weights_is_replaced_whole() -> None:
    found = port(
        "from transformers import AutoModelForCausalLM, Trainer\n"
        "def save(trainer: transformers.Trainer, output_dir: str):\n"
        "    state_dict = get_peft_state(trainer.model.named_parameters())\n"
        "    trainer._save(output_dir, state_dict=state_dict)\n\ndef preprocess():\n"
        "    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
        "    trainer = Trainer(model=model)\n    trainer.train()\n    save(trainer=trainer, output_dir='out')\n"
    )
    assert found.status == "ported"
    assert "str):\n    rt.save_model(trainer.model, output_dir)\n\ndef pre" in found.after


LOCAL = """\
{before}def load():
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
def train():
    model = load()
    from trl import SFTTrainer
    trainer = SFTTrainer(model=model, train_dataset=rows)
    trainer.train()
"""


@pytest.mark.parametrize(
    ("before", "top"),
    [
        ("import torch\nimport torch.distributed as dist\n\n", "import jax\n"),
        ("import torch\n\nimport torch.distributed as dist\n\n\n\n", "import jax\n"),
        ("", "import jax\n"),
        ("@torch.no_grad()\n", "import jax\n"),
        (
            '"""Doc."""\nfrom __future__ import annotations\n',
            '"""Doc."""\nfrom __future__ import annotations\nimport jax\n',
        ),
        ("# a comment\n", "# a comment\nimport jax\n"),
        ('"""Doc."""\n\n\n# a comment\n', '"""Doc."""\n\n\n# a comment\nimport jax\n'),
    ],
    ids=["imports", "gaps", "nothing", "decorated", "docstring", "comment", "both"],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_code_of_the_file_has_imports_of_the_file(before: str, top: str, newline: str) -> None:
    found = port(LOCAL.format(before=before).replace("\n", newline))
    after = found.after.replace(newline, "\n")
    names = {node.id for node in ast.parse(after).body if isinstance(node, ast.Name)}
    assert after.startswith(top) and not names
    assert after.index("import jax\n") < after.index("from porter import runtime as rt\n") < after.index("\nmesh = jax")
    assert after.count("mesh = jax.make_mesh") == 1 and "    return rt.load_model(" in after
    assert "\n    import" not in after and found.status == "ported"
    assert port(found.after).after == found.after


def test_imports_of_a_class_are_no_place_for_what_its_methods_use() -> None:
    head, _, rest = sft_script(after="trainer.train()\ndef show():\n    print(trainer.evaluate())\n").partition(
        "from trl import SFTConfig, SFTTrainer\n"
    )
    body = f"from trl import SFTConfig, SFTTrainer\n{rest}".splitlines()
    found = port(f"{head}class Run:\n" + "".join(f"    {line}\n" if line else "\n" for line in body))
    after = found.after
    assert after.index("\nfrom porter import runtime as rt\n") < after.index("\nclass Run:\n")
    assert "    from trl" not in after and "    import " not in after


@pytest.mark.parametrize(
    "load",
    [
        "model, tokenizer = FastLanguageModel.from_pretrained()",
        "model = AutoModelForCausalLM.from_pretrained(**given)",
    ],
)
def test_a_model_without_a_name_is_a_finding_at_its_call(load: str) -> None:
    imports = "from transformers import AutoModelForCausalLM\nfrom unsloth import FastLanguageModel\n"
    found = port(f"{imports}from trl import SFTTrainer\n{load}\ntrainer = SFTTrainer(model)\ntrainer.train()\n")
    errors = [finding for finding in found.findings if finding.severity == "error" and finding.line == 4]
    assert found.status == "partial" and len(errors) == 1 and "TP199" not in errors[0].rule
    assert "rt.load_model(None, mesh" in found.after
    assert not re.search(r"TODO\(.*\n*\Z", found.after)  # what a default asks for stands at the trainer


@pytest.mark.parametrize("given", ["model", "model, None", "LoraConfig(r=8)", "model, **given", ""])
def test_adapters_without_a_config_are_a_finding_at_their_call(given: str) -> None:
    found = port(
        sft_script(imports="from peft import LoraConfig, get_peft_model", between=f"model = get_peft_model({given})")
    )
    line = found.before.count("\n", 0, found.before.index("= get_peft")) + 1
    assert found.status == "partial" and "TP199" not in {finding.rule for finding in found.findings}
    assert [finding for finding in found.findings if finding.severity == "error" and finding.line == line]


def test_two_keywords_in_a_row_that_nobody_reads_are_left_out() -> None:
    given = "load_in_4bit=True, bnb_8bit_compute_dtype=1, bnb_8bit_use_double_quant=False"
    made = f"if quant:\n    config = BitsAndBytesConfig({given})\nelse:\n    config = None"
    imports = "from transformers import BitsAndBytesConfig"
    found = port(sft_script(imports=imports, before=made, load=", quantization_config=config"))
    assert not {"TP199"} & {finding.rule for finding in found.findings}
    assert "bnb_8bit" not in found.after


def test_inline_deepspeed_json_is_read() -> None:
    found = port(sft_script(config=""", deepspeed='{"zero_optimization": {"stage": 2}}'"""))
    assert not any(finding.rule == "TP402" and finding.severity == "error" for finding in found.findings)


@pytest.mark.parametrize("value", ["(held := 1)", "(held := make())", "(\n        make()\n        or other\n    )"])
@pytest.mark.parametrize("name", ["args", "train_dataset", "processing_class"])
def test_a_value_keeps_the_parentheses_that_it_needs(name: str, value: str) -> None:
    found = port(
        f"from trl import SFTTrainer\ntrainer = SFTTrainer(\n    model,\n    {name}={value},\n)\ntrainer.train()\n"
    )
    ast.parse(found.after)
    assert found.status in ("ported", "partial") and "TP199" not in {finding.rule for finding in found.findings}


def test_a_block_of_spaces_in_a_file_of_tabs_stays_one() -> None:
    found = port(
        "from trl import SFTTrainer\ndef f():\n\tpass\n"
        "try:\n    trainer = SFTTrainer(\n    \tmodel,\n    )\n    trainer.train()\nexcept ValueError:\n    pass\n"
        "def g(model):\n\ttrainer = SFTTrainer(model)\n\ttrainer.train()\n"
    )
    ast.parse(found.after)
    assert "\n    with mesh:\n    \ttrainer.train(" in found.after
    assert "\n\twith mesh:\n\t\ttrainer.train(" in found.after


def test_an_infinite_norm_is_kept() -> None:
    assert 'clip_by_global_norm(float("inf"))' in port(sft_script(config=', max_grad_norm=float("inf")')).after

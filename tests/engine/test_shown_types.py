"""Types of torch that a script turns into text."""

import pytest

from .porting import port, sft_script


@pytest.mark.parametrize(
    ("before", "line", "ported"),
    [
        ("", "info = {'dtype': str(DTYPE)}", "info = {'dtype': \"torch.\" + jnp.dtype(DTYPE).name}"),
        ("", "print(f'trained in {DTYPE}')", "print(f'trained in {\"torch.\" + jnp.dtype(DTYPE).name}')"),
        ("", 'print("in", DTYPE)', 'print("in", "torch." + jnp.dtype(DTYPE).name)'),
        ("", 'run.log_params({"type": DTYPE})', 'run.log_params({"type": "torch." + jnp.dtype(DTYPE).name})'),
        ("", "run.update(dict(type=DTYPE))", 'run.update(dict(type="torch." + jnp.dtype(DTYPE).name))'),
        (
            "WIDE = torch.float32 if DTYPE is None else DTYPE",
            "print(str(WIDE))",
            'print("torch." + jnp.dtype(WIDE).name)',
        ),
        ("", "print(torch.float32)", "print(torch.float32)"),
        ("NAME = 'bfloat16'", "print(f'{NAME}')", "print(f'{NAME}')"),
        ("MAYBE = DTYPE if os.environ else 'auto'", "print(str(MAYBE))", "print(str(MAYBE))"),
        ("", "x = str(DTYPE).split('.')[-1]", "x = (\"torch.\" + jnp.dtype(DTYPE).name).split('.')[-1]"),
        ("", 'print(f"in {DTYPE}")', "print(f\"in {'torch.' + jnp.dtype(DTYPE).name}\")"),
        ("", "names[DTYPE] = 1", "names[DTYPE] = 1"),
        ("", "names.update({'torch_dtype': DTYPE})", "names.update({'torch_dtype': DTYPE})"),
    ],
)
def test_its_text_is_torchs(before: str, line: str, ported: str) -> None:
    text = sft_script(
        f"DTYPE = torch.bfloat16\nnames = {{}}\n{before}",
        imports="import os\nimport torch\nimport mlflow as run", after=f"trainer.train()\n{line}",
    )  # fmt: skip
    text = text.replace('dtype="bfloat16"', "torch_dtype=DTYPE")
    after = port(text).after
    assert "DTYPE = jnp.bfloat16" in after
    assert after.splitlines()[-1] == ported


def test_a_type_that_stays_torchs_is_shown_as_it_is() -> None:
    text = sft_script(
        imports="import torch\nfrom peft import PeftModel",
        after="trainer.train()\nKEPT = torch.float16 if len(str(trainer)) > 3 else torch.bfloat16\nprint(KEPT)\n"
        'base = AutoModelForCausalLM.from_pretrained("x/y", torch_dtype=KEPT)\n'
        'PeftModel.from_pretrained(base, "out").merge_and_unload().save_pretrained("merged")\n',
    )
    after = port(text).after
    assert "KEPT = torch.float16 if" in after and "print(KEPT)" in after

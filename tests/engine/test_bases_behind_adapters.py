"""A base that is used by its own name behind the adapters that were put into it."""

import pytest

from .porting import port, sft_script

LOADS = """trainer.train()
base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
{loads}
inputs = tokenizer("hello", return_tensors="pt")
{uses}
print(adapted.generate(**inputs))
"""
APART = 'adapted = PeftModel.from_pretrained(base, "final")'


@pytest.mark.parametrize(
    ("loads", "uses", "said"),
    [
        (APART, "print(base.generate(**inputs))", "base"),
        (f"{APART}\nadapted.eval()", "with torch.no_grad():\n    print(base.generate(**inputs))", "base"),
        (APART, 'other = PeftModel.from_pretrained(base, "second")\nprint(other.generate(**inputs))', "base"),
        (APART, "base.eval()", ""),
        (APART, "del base", ""),
        (APART.replace("(base", "(load()"), "print(base.generate(**inputs))", ""),
        (APART, "with adapted.disable_adapter():\n    print(base.generate(**inputs))", ""),
        (APART, 'base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")\nprint(base.generate(**inputs))', ""),
        (f"print(base.generate(**tokenizer('x', return_tensors='pt')))\n{APART}", "", ""),
        ('base = adapted = PeftModel.from_pretrained(base, "final")', "", ""),
    ],
)
def test_such_a_use_is_said(loads: str, uses: str, said: str) -> None:
    text = sft_script(
        'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")',
        imports="import torch\nfrom peft import LoraConfig, PeftModel",
        trainer=', peft_config=LoraConfig(r=8, target_modules=["q_proj"])',
        after=LOADS.format(loads=loads, uses=uses),
    )
    ported = port(text)
    told = [finding.message for finding in ported.findings if "PEFT put the adapters into it" in finding.message]
    assert [message.partition(":")[0] for message in told] == ([said] if said else [])
    assert not said or "rt.apply_adapter(base" in ported.after

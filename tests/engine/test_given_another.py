"""Functions that are given a model which torch loads behind the training: they stay torch's."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

LINES = """\
trainer.train()
trainer.model.save_pretrained("adapter")
base_model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map="auto")
{made}


def answer(model, tokenizer, prompt):
    model.eval()
    inputs = tokenizer(prompt, return_tensors="pt")
    device = next(model.parameters()).device
    ids = inputs["input_ids"].to(device)
    with torch.no_grad():
        found = model.generate(input_ids=ids, max_new_tokens=5)
    return tokenizer.decode(found[0])


print(answer({given}, tokenizer, "a"))
"""
IMPORTS = "import torch\nfrom peft import PeftModel"
TOKENIZER = 'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")'
UNPACKED = 'model = PeftModel.from_pretrained(base_model, "unpacked")\nmodel.eval()'


def test_a_function_of_a_model_that_torch_loads_stays() -> None:
    text = sft_script(TOKENIZER, imports=IMPORTS, after=LINES.format(made=UNPACKED, given="model"))
    found = port(text)
    assert found.status == "ported", found.findings
    assert text[text.index("def answer") : text.index("print(")] in found.after
    said = [finding.message for finding in found.findings if finding.rule == "TP311"]
    assert said == ["model.generate(...): this model is torch's, and generates on the host."]


@pytest.mark.parametrize(
    ("made", "given"),
    [("", "model"), (f"{UNPACKED}\nuse = answer", "model"), ("", "trainer.model"), ("model = model", "model")],
)
def test_one_of_the_trained_model_does_not(made: str, given: str) -> None:
    found = port(sft_script(TOKENIZER, imports=IMPORTS, after=LINES.format(made=made, given=given)))
    assert "found = model.generate(input_ids=ids" not in found.after or found.status == "partial"

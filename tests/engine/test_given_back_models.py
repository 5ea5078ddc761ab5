"""TP314: a model that is loaded again in a function which gives it back, or in the call that puts the adapter in."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

IMPORTS = (
    "import torch\nfrom peft import AutoPeftModelForCausalLM, LoraConfig, PeftModel\n"
    "from transformers import BitsAndBytesConfig"
)
TOKENIZER = 'tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")'
CONFIG = "BitsAndBytesConfig(load_in_4bit=True)"
BASE = f"AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', quantization_config={CONFIG})"
LOADED = f"rt.load_model('Qwen/Qwen3-0.6B', mesh, quantization={CONFIG})"
ASKS = "print(tuned.generate(**tok('a', return_tensors='pt')))"


def behind(after: str) -> str:
    text = f"trainer.train()\ntrainer.save_model('out')\n{after}\n"
    found = port(sft_script(TOKENIZER, imports=IMPORTS, trainer=", peft_config=LoraConfig(r=8)", after=text))
    errors = [each for each in found.findings if each.severity == "error"]
    assert (found.status == "ported") is not bool(errors)
    return "" if errors else " ".join(found.after.partition("trainer.train(batches)\n")[2].split())


@pytest.mark.parametrize(
    ("loads", "becomes"),
    [
        (f"tuned = PeftModel.from_pretrained({BASE}, 'out')", f"tuned = rt.apply_adapter( {LOADED}, 'out', mesh )"),
        (
            f"tuned = PeftModel.from_pretrained({BASE}.to('cuda'), 'out').eval().merge_and_unload()",
            f"tuned = rt.merge_and_unload(rt.apply_adapter({LOADED}, 'out', mesh))",
        ),
        (
            f"def load():\n    base = {BASE}\n    return PeftModel.from_pretrained(base, 'out')\ntuned = load()",
            f"def load(): base = {LOADED} return rt.apply_adapter(base, 'out', mesh) tuned = load()",
        ),
        (
            "def load():\n    m = AutoPeftModelForCausalLM.from_pretrained('out', load_in_4bit=True)\n"
            "    return m, AutoTokenizer.from_pretrained('out')\ntuned, tok = load()",
            "m = rt.load_trained('out', mesh, quantization=\"fp4\")",
        ),
        (
            f"def load(path):\n    m = {BASE}\n    if path:\n        m = PeftModel.from_pretrained(m, path)\n"
            "    return m\ndef again():\n    return load('out')\nplain = load(None)\n"
            "plain.generate(**tok('a', return_tensors='pt'))\ntuned = again()",
            f"def load(path): m = {LOADED} if path: m = rt.apply_adapter(m, path, mesh) return m",
        ),
        (
            f"def load():\n    return {BASE}\nfor _ in range(2):\n    tuned = load()\n    {ASKS}\n    del tuned\n"
            "for tuned in ('a', 'b'):\n    print(tuned in ASKED)",
            f"def load(): return {LOADED} for _ in range(2): tuned = load() print(rt.generate(tuned, **tok('a', ",
        ),
    ],
)
def test_what_a_function_or_a_call_gives_on(loads: str, becomes: str) -> None:
    after = behind(f"{loads}\n{ASKS}")
    assert becomes in after and "print(rt.generate(" in after and "tuned.generate" not in after, after


def test_what_another_function_is_given() -> None:
    ask = "def ask(m, q):\n    with torch.no_grad():\n        return m.generate(**tok(q, return_tensors='pt'))\n"
    loads = f"def load():\n    return {BASE}\n{ask}for _ in range(2):\n    tuned = load()\n    print(ask(tuned, 'a'))\n"
    assert "with mesh: return rt.generate(m, **tok(q, return_tensors='np'))" in behind(loads)
    other = "other = AutoModelForCausalLM.from_pretrained('facebook/opt-125m')\n    return other"
    assert behind(f"def another():\n    {other}\n{loads}second = another()\nask(second, 'b')\n") == ""


@pytest.mark.parametrize(
    "loads",
    [
        f"def load():\n    return {BASE}\ntuned = load()\ntuned.unknown()",
        f"def load():\n    return {BASE}\nheld = [load()]\ntuned = held[0]",
        f"def load():\n    return {BASE}\nprint(load)\ntuned = load()",
        f"def load():\n    return {BASE}, tok\ntuned = load()[0]",
        f"def load():\n    m = {BASE}\n    return load() if m else m\ntuned = load()",
        f"def load():\n    return {BASE}\ntuned = tok\nfor _ in range(2):\n    tuned.unknown()\n    tuned = load()",
    ],
)
def test_what_is_not_followed_stays_torchs(loads: str) -> None:
    assert behind(f"{loads}\n{ASKS}") == ""

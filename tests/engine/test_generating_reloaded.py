"""Models that are loaded again to generate, by a call or by a pipeline's name."""

from __future__ import annotations

import pytest

from .generating_scripts import script
from .porting import check_becomes, port

PEFT = "from peft import AutoPeftModelForCausalLM, PeftModel\n"
AGAIN = """\
base = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', device_map='auto').to('cuda')
model = PeftModel.from_pretrained(base, 'out')
model = model.merge_and_unload()
model.eval()
model.save_pretrained('merged')
"""
LOADED = [
    (AGAIN, "base = rt.load_model('Qwen/Qwen3-0.6B', mesh)\nmodel = rt.apply_adapter(base, 'out', mesh)\n"),
    (AGAIN, "model = rt.merge_and_unload(model)\nmodel.save_pretrained('merged')\n"),
    (
        "model = AutoModelForCausalLM.from_pretrained('out', dtype=torch.float32)\n",
        "rt.load_trained('out', mesh, dtype=jnp.",
    ),
    ("model = AutoPeftModelForCausalLM.from_pretrained('out').cuda()\n", "model = rt.load_trained('out', mesh)\n"),
    (
        "OUT = 'a'\nmodel.save_pretrained(f'{OUT}/b')\nmodel = AutoModelForCausalLM.from_pretrained('a/b')\n",
        "model = rt.load_trained('a/b', mesh)\n",
    ),
    (
        "path = tokenizer.name\nmodel.save_pretrained(path)\nmodel = AutoModelForCausalLM.from_pretrained(path)\n",
        "model = rt.load_trained(path, mesh)\n",
    ),
    (
        AGAIN.replace("'out')", "'out').merge_and_unload()").replace("model = model.merge_and_unload()\n", ""),
        "model = rt.merge_and_unload(rt.apply_adapter(base, 'out', mesh))\n",
    ),
]


@pytest.mark.parametrize(("load", "part"), LOADED)
def test_a_model_loaded_again_to_generate(load: str, part: str) -> None:
    text = PEFT + script(load + "ids = tokenizer('a', return_tensors='pt')", "print(model.generate(**ids))")
    text += "def ask(model):\n    return model.generate(**tokenizer('b', return_tensors='pt'))\nask(model)\n"
    text += "pipe = pipeline('text-generation', model=model, tokenizer=tokenizer)\n"
    text += "model.config.use_cache = True\ndel model\n"
    check_becomes(
        text,
        part,
        "print(rt.generate(model, **ids))",
        "return rt.generate(model, **tokenizer('b', return_tensors='np'))",
        "pipe = rt.TextGenerationPipeline(model, tokenizer)",
        gone=("torch", "peft import Auto", "'pt'", "use_cache"),
    )


def test_what_only_says_where_an_adapter_is_and_whether_a_model_is_there() -> None:
    load = AGAIN.replace("'out')", "'out', is_trainable=False, local_files_only=True, token=None)")
    lines = "if model is not None:\n    print(model.generate(**ids))"
    text = PEFT + script(load + "ids = tokenizer('a', return_tensors='pt')", lines)
    check_becomes(text, "model = rt.apply_adapter(base, 'out', mesh)\n", "    print(rt.generate(model, **ids))")


@pytest.mark.parametrize(
    "load",
    [
        "model = AutoModelForCausalLM.from_pretrained('out', quantization_config=quantized())\n",
        "model = AutoModelForCausalLM.from_pretrained('openai-community/gpt2')\n",
        "model = AutoModelForCausalLM.from_pretrained(input())\n",
        "model = AutoModelForCausalLM.from_pretrained('out')\nmodel.half_of_it()\n",
        "model = AutoModelForCausalLM.from_pretrained('out')\nsomething.else_with(model)\n",
        "model = AutoModelForCausalLM.from_pretrained('out')\nprint(model.config.eos_token_id)\n",
        "model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained('a'), 'out')\n",
    ],
)
@pytest.mark.parametrize("use", ["model.generate(**ids)", "pipeline('text-generation', model=model)"])
def test_a_model_of_which_not_all_is_known_is_torchs(load: str, use: str) -> None:
    found = port(PEFT + script(load + "ids = tokenizer('a', return_tensors='pt')", f"print({use})"))
    assert f"print({use})" in found.after and "return_tensors='pt'" in found.after
    assert [f.severity for f in found.findings if "generates on the host" in f.message] == ["warning"]


def test_a_path_that_is_bound_twice_to_what_is_saved() -> None:
    saves = "path = f'./{tokenizer.name}'\nmodel.save_pretrained(f'./{tokenizer.name}')\n"
    load = "again = AutoModelForCausalLM.from_pretrained(path)\n"
    text = script("path = 'x'", saves + load + "again.generate(**tokenizer('a', return_tensors='pt'))")
    assert "again = rt.load_trained(path, mesh)" in port(text).after
    assert "again = AutoModelForCausalLM" in port(text.replace("path = f'./", "path = f'../")).after


def test_a_pipeline_of_a_name() -> None:
    check_becomes(
        script("pipe = pipeline('text-generation', model='out', device=0)", "print(pipe('a')[0]['generated_text'])"),
        "pipe = rt.TextGenerationPipeline(rt.load_trained('out', mesh), AutoTokenizer.from_pretrained('out'))\n",
    )


@pytest.mark.parametrize("given", ["'out'", "folder"])
def test_a_pipeline_whose_tokenizer_is_a_name(given: str) -> None:
    check_becomes(
        script("folder = 'out'", f"pipe = pipeline('text-generation', model='out', tokenizer={given})"),
        f"pipe = rt.TextGenerationPipeline(rt.load_trained('out', mesh), AutoTokenizer.from_pretrained({given}))\n",
    )


def test_a_model_loaded_again_to_save_it_stays() -> None:
    found = port(PEFT + script(AGAIN))
    assert AGAIN.replace("'cuda'", '"cpu"') in found.after


def test_a_function_that_gets_the_model_and_one_loaded_again() -> None:
    lines = ["def ask(model):", "    return model.generate(**tokenizer('a', return_tensors='pt'))", "ask(model)"]
    found = port(script(*lines, "model = AutoModelForCausalLM.from_pretrained('out')", "model.other()", "ask(model)"))
    assert "rt.generate" not in found.after and found.status == "partial"


@pytest.mark.parametrize("again", [True, False])
def test_a_function_that_hands_the_model_on(again: bool) -> None:
    """It is given Tunix's model before the training and torch's behind it: rt.generate would end at the second."""
    lines = ["def ask(model):", "    return model.generate(**tokenizer('a', return_tensors='pt'))"]
    lines += ["def score(rows, model):", "    return [ask(model) for row in rows]", "score([1], model)"]
    if again:
        lines += ["model = AutoModelForCausalLM.from_pretrained('out')", "model.other()", "score([1], model)"]
    found = port(script(*lines))
    assert ("rt.generate" in found.after) is not again
    errors = [finding.message for finding in found.findings if finding.severity == "error"]
    assert bool(errors) is again, found.after


@pytest.mark.parametrize(
    ("given", "told"),
    [("torch.float16", True), ("torch.half", True), ("torch.bfloat16", False), ("torch.float32", False)],
)
def test_what_is_merged_in_float16_is_said_to_be_in_bfloat16(given: str, told: bool) -> None:
    lines = AGAIN.replace("device_map='auto'", f"torch_dtype={given}").replace(".to('cuda')", "")
    ids = "ids = tokenizer('a', return_tensors='pt')\nmodel.generate(**ids)\n"
    for text, saved in ((lines, True), (lines.replace("model.save_pretrained('merged')\n", ""), False)):
        said = [
            each.message for each in port(PEFT + script(text + ids)).findings if "saved in bfloat16" in each.message
        ]
        assert bool(said) is (told and saved)


@pytest.mark.parametrize("other", [True, False])
def test_a_function_that_gets_a_model_of_torch_too_stays_torchs(other: bool) -> None:
    """Another function of the file loads one with torch: rt.generate would end with it."""
    text = PEFT + script("", "")
    text += "def load(path):\n    base = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
    text += "    return PeftModel.from_pretrained(base, path), tokenizer\n"
    text += "def ask(model):\n    return model.generate(**tokenizer('b', return_tensors='pt'))\n"
    text += "tuned, tokenizer = load('out')\nask(tuned)\n" if other else ""
    text += "base = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\nask(base)\n"
    found = port(text)
    assert ("rt.generate(" in found.after, "base = rt.load_model(" in found.after) == (not other, not other)
    assert any("this model is torch's" in finding.message for finding in found.findings) is other

"""The type of models that are loaded without one, where transformers 4 loaded float32 and 5 the checkpoint's type."""

import pytest

from .porting import port, sft_script

IMPORTS = """\
# transformers=={release}
from peft import AutoPeftModelForCausalLM, PeftModel
from transformers import AutoModelForSequenceClassification, pipeline"""
OLD, BETWEEN, NEW = "4.46.3", "4.57.1", "5.12.0"


def _ported(line: str, release: str) -> str:
    text = sft_script(imports=IMPORTS.format(release=release), after=f"trainer.train()\n{line}")
    if release == OLD:  # which has no Qwen 3, and an older name of the type
        text = text.replace("dtype=", "torch_dtype=", 1).replace("Qwen3", "Qwen2.5")
    return port(text).after


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        (
            'j = AutoModelForSequenceClassification.from_pretrained("me/j", num_labels=1)',
            'num_labels=1, dtype="float32")',
        ),
        (
            'j = AutoModelForSequenceClassification.from_pretrained("me/j", torch_dtype=None)',
            '"me/j", torch_dtype="float32")',
        ),
        (
            'j = AutoModelForSequenceClassification.from_pretrained("me/j", quantization_config=None)',
            'quantization_config=None, dtype="float32")',
        ),
        ('j = AutoPeftModelForCausalLM.from_pretrained("them/j")\nprint(j.layers)', '("them/j", dtype="float32")'),
        ('j = AutoModelForSequenceClassification.from_pretrained("me/j", **{"num_labels": 1})', ', dtype="float32")'),
    ],
)
def test_torch_loads_the_type_of_transformers_4(line: str, becomes: str) -> None:
    for release in (OLD, BETWEEN):
        assert becomes in _ported(line, release)
    assert line in _ported(line, NEW)


@pytest.mark.parametrize(
    "given",
    ['"me/j", torch_dtype="bfloat16"', '"me/j", torch_dtype="auto"', '"me/j", **{"torch_dtype": "auto"}'],
)
def test_a_type_that_is_named_stays(given: str) -> None:
    line = f"j = AutoModelForSequenceClassification.from_pretrained({given})"
    assert line in _ported(line, OLD)


def test_a_cast_on_the_spot_decides() -> None:
    line = 'j = AutoModelForSequenceClassification.from_pretrained("me/j").half()'
    assert line in _ported(line, OLD)


def test_a_pipeline_kept_float32_a_little_less_long() -> None:
    line = 'p = pipeline("sentiment-analysis", model="me/j")'
    assert 'model="me/j", dtype="float32")' in _ported(line, OLD)
    assert line in _ported(line, BETWEEN) and line in _ported(line, NEW)
    given = 'p = pipeline("sentiment-analysis", model="me/j", model_kwargs={"torch_dtype": "auto"})'
    assert given in _ported(given, OLD)


def test_what_the_run_spreads_is_said() -> None:
    line = 'j = AutoModelForSequenceClassification.from_pretrained("me/j", **options())'
    text = sft_script(imports=IMPORTS.format(release=BETWEEN), after=f"trainer.train()\n{line}")
    found = port(text)
    assert line in found.after
    assert any("options() names no dtype" in finding.message for finding in found.findings)
    assert not any("names no dtype" in finding.message for finding in port(text.replace(BETWEEN, NEW)).findings)


def test_tunix_loads_it_too() -> None:
    line = """\
base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tuned = PeftModel.from_pretrained(base, "out")
print(tuned.generate(**AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")("a", return_tensors="pt")))
"""
    assert 'base = rt.load_model("Qwen/Qwen3-0.6B", mesh, dtype=jnp.float32)' in _ported(line, BETWEEN)
    assert 'base = rt.load_model("Qwen/Qwen3-0.6B", mesh)' in _ported(line, NEW)
    four = line.replace('-0.6B")\ntuned', '-0.6B", load_in_4bit=True)\ntuned')
    assert 'base = rt.load_model("Qwen/Qwen3-0.6B", mesh, quantization="fp4")' in _ported(four, BETWEEN)


def test_a_pipeline_of_tunix_has_the_type_that_it_names() -> None:
    line = 'trainer.save_model("out")\np = pipeline("text-generation", model="out"{})\np("a")'
    assert 'rt.load_trained("out", mesh, dtype=jnp.float32)' in _ported(line.format(""), OLD)
    assert 'rt.load_trained("out", mesh)' in _ported(line.format(""), BETWEEN)
    assert 'rt.load_trained("out", mesh)' in _ported(line.format(', torch_dtype="auto"'), OLD)
    alone = line.format("").replace("trainer.save_model", "model.save_pretrained")
    assert 'AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.6B")' in _ported(alone, OLD)
    half = line.format(', dtype="float32"')
    assert 'rt.load_trained("out", mesh, dtype="float32")' in _ported(half, BETWEEN)

"""Conditions that ask an installed release what it takes are answered as the release that the script is read as."""

import pytest

from .porting import port

SCRIPT = """\
import inspect
import dataclasses
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
kwargs = {{"model": "Qwen/Qwen3-0.6B", "args": SFTConfig(output_dir="out"), "train_dataset": load_dataset("x/y")}}
{lines}
if {test}:
    kwargs["processing_class"] = tokenizer
else:
    kwargs["tokenizer"] = tokenizer
trainer = SFTTrainer(**kwargs)
trainer.train()
"""
OF_INIT = "inspect.signature(SFTTrainer.__init__).parameters"


@pytest.mark.parametrize(("release", "kept"), [("1.16.0", "processing_class"), ("0.11.4", "tokenizer")])
@pytest.mark.parametrize(
    ("lines", "test"),
    [
        ("", f"'processing_class' in {OF_INIT}"),
        ("", "'processing_class' in inspect.signature(SFTTrainer).parameters.keys()"),
        ("", f"not 'processing_class' not in {OF_INIT}"),
        (f"names = set({OF_INIT})", "'processing_class' in names"),
        (
            "asked = inspect.signature(SFTTrainer.__init__)\nnames = list(asked.parameters)",
            "'processing_class' in names",
        ),
        ("", "'processing_class' in SFTTrainer.__init__.__code__.co_varnames"),
        ("", "'processing_class' in inspect.getfullargspec(SFTTrainer.__init__).args"),
    ],
)
def test_a_keyword_of_the_dated_release(lines: str, test: str, release: str, kept: str) -> None:
    found = port(SCRIPT.format(lines=lines, test=test), source_trl=release)
    gone = {"processing_class": "tokenizer", "tokenizer": "processing_class"}[kept]
    assert found.status == "ported", found.findings
    assert f'kwargs["{kept}"] = tokenizer\n' in found.after and f'kwargs["{gone}"]' not in found.after
    assert not any(word in found.after for word in ("inspect.", "from trl", "names", "SFTTrainer."))


CHAIN = """\
names = inspect.signature(SFTTrainer.__init__).parameters
if "max_seq_length" in names:
    kwargs["max_seq_length"] = 77
if "processing_class" in names:
    # the newer name
    kwargs["processing_class"] = tokenizer
elif "tokenizer" in names:
    kwargs["tokenizer"] = tokenizer
else:
    raise ValueError
"""
POPPED = """\
kwargs["tokenizer"] = tokenizer
if "processing_class" in inspect.signature(SFTTrainer).parameters:
    kwargs["processing_class"] = kwargs.pop("tokenizer", None)
"""
NAMED = """\
names = set(inspect.signature(SFTTrainer.__init__).parameters)
key = "processing_class" if "processing_class" in names else "tokenizer"
kwargs[key] = tokenizer
"""


@pytest.mark.parametrize("release", ["1.16.0", "0.11.4"])
@pytest.mark.parametrize("lines", [CHAIN, POPPED.replace('kwargs.pop("tokenizer", None)', "tokenizer"), NAMED])
def test_other_ways_to_write_it(lines: str, release: str) -> None:
    head, _, rest = SCRIPT.format(lines="", test="x").partition("\n\nif x")
    found = port(f"{head}\n{lines}{rest[rest.index('trainer = ') :]}", source_trl=release)
    assert found.status == "ported", found.findings
    assert "names" not in found.after and not any(word in found.after for word in ("if True", "elif", "raise"))
    assert "max_length=77" in found.after if release == "0.11.4" and "77" in lines else "77" not in found.after
    assert "tokenizer," in found.after.partition("rt.SFTBatches")[2]


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ("hasattr(SFTConfig, 'max_length')", True),
        ("'max_seq_length' in SFTConfig.__dataclass_fields__", False),
        ("'max_length' in {field.name for field in dataclasses.fields(SFTConfig)}", True),
    ],
)
def test_fields_of_a_config(test: str, holds: bool) -> None:
    found = port(SCRIPT.format(lines="", test=test))
    kept = "processing_class" if holds else "tokenizer"
    assert f'kwargs["{kept}"] = tokenizer\n' in found.after and "\nif " not in found.after.partition("batches")[0]


@pytest.mark.parametrize(
    "test", ["'x' in inspect.signature(print).parameters", "'x' in kwargs", "hasattr(tokenizer, 'x')"]
)
def test_other_questions_stay(test: str) -> None:
    assert f"if {test}:\n" in port(SCRIPT.format(lines="", test=test)).after


FILTERED = """\
import inspect
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer
{before}
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
kwargs = {{"model": "Qwen/Qwen2.5-0.5B", "args": SFTConfig(output_dir="out"), "train_dataset": load_dataset("x/y")}}
kwargs["max_seq_length"] = 77
{accepted}
{filter}
trainer = SFTTrainer(**)
trainer.train()
"""
FILTERS = {
    "of its own name": "kwargs = {k: v for k, v in kwargs.items() if k in accepted}",
    "another name": "given = {k: v for k, v in kwargs.items() if k in accepted}",
    "a function": "given = keep(SFTTrainer, kwargs)",
}
KEEP = """
def keep(cls, kw):
    try:
        sig = inspect.signature(cls.__init__)
        accepted = set(sig.parameters)
        return {k: v for k, v in kw.items() if k in accepted}
    except (TypeError, ValueError):
        return kw
"""


@pytest.mark.parametrize(
    ("before", "filtered"),
    [
        ("", "given = {k: v for k, v in kwargs.items() if k not in accepted}"),
        ("other = {}", "kwargs = {k: v for k, v in other.items() if k in accepted}"),
        (KEEP.replace("return kw\n", "return other\n"), "given = keep(SFTTrainer, kwargs)"),
        (
            KEEP.replace("return kw\n", "return {k: v for k, v in kw.items() if k in set()}\n"),
            "given = keep(SFTTrainer, kwargs)",
        ),
    ],
)
def test_what_else_is_taken_of_a_dictionary_is_not_known(before: str, filtered: str) -> None:
    text = FILTERED.format(before=before, accepted=f"accepted = set({OF_INIT})", filter=filtered)
    given = filtered.partition(" ")[0]
    found = port(text.replace("SFTTrainer(**)", f"SFTTrainer(**{given})"), source_trl="0.11.4")
    assert found.status == "partial" and "max_length=77," not in found.after
    assert any("the keywords in it are not known" in finding.message for finding in found.findings)


@pytest.mark.parametrize("form", FILTERS)
@pytest.mark.parametrize(("release", "taken"), [("0.11.4", True), ("1.16.0", False)])
def test_what_a_release_takes_of_a_dictionary(form: str, release: str, taken: bool) -> None:
    accepted = "" if form == "a function" else f"accepted = set({OF_INIT})"
    text = FILTERED.format(before=KEEP if form == "a function" else "", accepted=accepted, filter=FILTERS[form])
    text = text.replace("SFTTrainer(**)", f"SFTTrainer(**{FILTERS[form].partition(' ')[0]})")
    found = port(text, source_trl=release)
    assert found.status == "ported", found.findings
    assert ("max_length=77," in found.after) is taken
    assert "from trl" not in found.after and "given" not in found.after


@pytest.mark.parametrize("instead", ["{}", "dict(kw, report_to='none')", "other"])
def test_a_function_that_may_return_something_else(instead: str) -> None:
    before = KEEP.replace("    try:", f"    if strict():\n        return {instead}\n    try:")
    before += "\nother = other = print\nprint = print\n\ndef said():\n    return print\n\nsaid()\n"
    text = FILTERED.format(before=before, accepted="", filter=FILTERS["a function"])
    found = port(text.replace("SFTTrainer(**)", "SFTTrainer(**given)"), source_trl="0.11.4")
    assert found.status != "ported" and "max_length=77," not in found.after

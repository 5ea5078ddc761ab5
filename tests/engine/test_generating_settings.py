"""Settings of generate: what has no counterpart, what is off, what a dict holds, and what they mean in a release."""

from __future__ import annotations

import ast

import pytest

from .generating_scripts import HEAD, IDS, TRAIN, script
from .porting import check_becomes, port


def test_a_config_alone_before_training_gets_no_more_arguments() -> None:
    before = (
        "base = model.generate(input_ids=a, attention_mask=b, generation_config=GenerationConfig(max_new_tokens=9),)\n"
    )
    found = port(HEAD.replace("import Auto", "import GenerationConfig, Auto", 1) + before + TRAIN).after
    assert "attention_mask=b, generation_config=GenerationConfig(max_new_tokens=9),)" in found


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("model.generate(**ids, num_beams=2)", "no beams"),
        ("model.generate(**ids, num_beams=size)", "no beams"),
        ("model.generate(**ids, penalty_alpha=0.6, top_k=4)", "contrastive search"),
        ("model.generate(**ids, stop_strings=['.'], tokenizer=tokenizer)", "ends with an end token"),
        ("model.generate(**ids, image_sizes=[3])", "no such setting"),
        ("model.generate(ids.input_ids.expand(2, -1))", "a NumPy array in the port"),
        ("pipeline('summarization', model=model, tokenizer=tokenizer)", "text-generation pipelines only"),
    ],
)
def test_what_has_no_counterpart_is_named(call: str, said: str) -> None:
    found = port(script("size = len(rows)", IDS + f"print({call})"))
    assert found.status == "partial"
    errors = [finding.message for finding in found.findings if finding.severity == "error"]
    assert any(said in message for message in errors), errors


DICTS = [
    "kw = dict(max_new_tokens=5)\nif len(rows) > 3:\n    kw = dict(max_new_tokens=9, num_beams=4)",
    "kw = {'max_new_tokens': 5}\nif len(rows) > 3:\n    kw.update(num_beams=4)",
    "kw = {'max_new_tokens': 5}\nfor n in range(len(rows)):\n    kw['num_beams'] = 4",
    "def settings(n):\n    if n > 3:\n        return {'num_beams': 4}\n    return {}\nkw = settings(len(rows))",
    "BASE = {'num_beams': 4}\nMORE = {'top_k': 4}\nkw = {**BASE} if len(rows) > 3 else MORE.copy()",
    "BASE = {'num_beams': 4}\nkw = dict(BASE | {'top_k': 3}) if len(rows) > 3 else {}",
    "from transformers import GenerationConfig\nconfig = GenerationConfig(num_beams=4, top_k=3)\n"
    "kw = {'generation_config': config}",
]
CALLED = [
    "print(model.generate(**ids, **kw))",
    "def ask(**given):\n    return model.generate(**ids, **given)\nask(**kw)",
    "pipe = pipeline('text-generation', model=model, tokenizer=tokenizer)\npipe('a', **kw)",
]


@pytest.mark.parametrize("call", CALLED)
@pytest.mark.parametrize("made", DICTS)
def test_a_dict_of_settings_that_is_not_made_at_once(made: str, call: str) -> None:
    found = port(script(IDS + made, call))

    [message] = [finding.message for finding in found.findings if finding.severity == "error"]
    assert "num_beams=4): Tunix's sampler here keeps one completion a row" in message
    assert port(script(IDS + made.replace("4", "1").replace("1:", "4:"), call)).status == "ported"


@pytest.mark.parametrize("name", ["image_sizes", "made_up"])
def test_a_dict_with_what_is_no_setting(name: str) -> None:
    made = f"kw = dict(top_k=5)\nif len(rows) > 3:\n    kw = dict({name}=9)\n"
    found = port(script(IDS + made, "print(model.generate(**ids, **kw))"))

    assert [f.message for f in found.findings if f.severity == "error"] == [
        f"generate({name}=9): the port's generate knows no such setting."
    ]


def test_what_a_dict_held_before_it_was_made_anew_is_not_asked() -> None:
    made = "kw = dict(num_beams=4)\nprint(kw)\nkw = dict(top_k=5)\nif len(rows) > 3:\n    kw = dict(top_k=9)\n"

    assert port(script(IDS + made, "print(model.generate(**ids, **kw))")).status == "ported"


def test_settings_that_are_off_go() -> None:
    call = "print(model.generate(**ids, num_beams=1, use_cache=False, penalty_alpha=None, max_new_tokens=3))"
    found = check_becomes(script(IDS + call), "rt.generate(model, **ids, max_new_tokens=3, tokenizer=tokenizer)")
    fates = {row.source: row.fate for row in found.recipe.fields if row.source.startswith("generate")}
    assert fates == {
        "generate.num_beams": "dropped",
        "generate.use_cache": "dropped",
        "generate.penalty_alpha": "dropped",
        "generate.max_new_tokens": "exact",
    }


def test_settings_that_change_nothing_go_between_comments() -> None:
    asked = (
        "out = model.generate(\n    **ids,\n    do_sample=True,  # draws\n    length_penalty=1.0,  # neutral\n"
        "    early_stopping=False,  # of beams\n)\n"
    )
    found = port(script(IDS + asked))
    ast.parse(found.after)
    assert "length_penalty" not in found.after and "early_stopping" not in found.after
    assert "do_sample=True,  # draws\n" in found.after and "tokenizer=tokenizer,  # of beams\n" in found.after


@pytest.mark.parametrize(
    ("release", "pipe", "call"),
    [
        ("0.12.2", ', transformers="4.46"', ', transformers="4.46"'),
        ("0.16.1", ', transformers="4.5', ', transformers="4.5'),
        ("0.19.1", ', transformers="4.5', ', transformers="4.5'),
        ("1.16.0", "", ""),
    ],
)
def test_what_generates_as_the_release_of_the_script_did(release: str, pipe: str, call: str) -> None:
    lines = [IDS, "pipe = pipeline('text-generation', model=model, tokenizer=tokenizer)", "print(pipe('a'))"]
    lines += ["from transformers import GenerationConfig", "config = GenerationConfig(max_new_tokens=4)"]
    lines += ["print(model.generate(**ids, generation_config=config))", "print(model.generate(**ids, top_k=3))"]
    older = script(*lines).replace("dtype=", "torch_dtype=").replace("Qwen/Qwen3-0.6B", "Qwen/Qwen2.5-0.5B")
    after = port(older, source_trl=release).after

    made = next(line for line in after.splitlines() if line.startswith("pipe ="))
    assert made.startswith(f"pipe = rt.TextGenerationPipeline(model, tokenizer{pipe}")
    assert made.endswith(")") and ("transformers=" in made) is bool(pipe)
    [asked] = [line for line in after.splitlines() if "generation_config=config" in line]
    assert f"generation_config=config, tokenizer=tokenizer{call}" in asked and ("transformers=" in asked) is bool(call)
    assert "rt.generate(model, **ids, top_k=3, tokenizer=tokenizer))" in after

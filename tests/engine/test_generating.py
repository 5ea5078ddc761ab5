"""model.generate: where the model, its prompts and the guards around it are followed to."""

from __future__ import annotations

import pytest

from .generating_scripts import HEAD, IDS, TRAIN, script
from .porting import check_becomes, port, sft_script

CALLS = [
    (
        """\
ids = tokenizer('a', return_tensors='pt')
ids = ids.to('cuda')
out = model.generate(**ids)
""",
        "ids = tokenizer('a', return_tensors='np')\nout = rt.generate(model, **ids, tokenizer=tokenizer)\n",
    ),
    (
        """\
ids = tokenizer.encode('a', return_tensors='pt').cuda()
out = model.generate(ids, max_length=9).cpu()[0]
""",
        "return_tensors='np')\nout = rt.generate(model, ids, max_length=9, tokenizer=tokenizer)[0]",
    ),
    (
        """\
ids = tokenizer('a', return_tensors='pt')
out = model.generate(input_ids=ids['input_ids'].to('cuda'), attention_mask=ids.attention_mask.to(0))
""",
        "rt.generate(model, input_ids=ids['input_ids'], attention_mask=ids.attention_mask, tokenizer=tokenizer)",
    ),
    (
        """\
def ask(text):
    ids = tokenizer(text, return_tensors='pt').to('cuda')
    return trainer.model.generate(**ids, use_cache=True, max_new_tokens=4)
ask('a')
""",
        "return_tensors='np')\n    return rt.generate(model, **ids, max_new_tokens=4, tokenizer=tokenizer)",
    ),
    (
        """\
def encode(text):
    return tokenizer(text, return_tensors='pt').to('cuda')
print(model.generate(**encode('a')))
""",
        "return tokenizer(text, return_tensors='np')\nprint(rt.generate(model, **encode('a'), tokenizer=tokenizer))",
    ),
    (
        """\
def ask(ids):
    return model.generate(ids)
ask(tokenizer('a', return_tensors='pt').input_ids.to(0))
""",
        "ask(tokenizer('a', return_tensors='np').input_ids)",
    ),
    (
        """\
kwargs = {'max_new_tokens': 5}
ids = tokenizer('a', return_tensors='pt').to('cuda')
print(model.generate(**ids, **kwargs))
""",
        "rt.generate(model, **ids, **kwargs, tokenizer=tokenizer)",
    ),
    (
        """\
for text in ['a', 'b']:
    with torch.inference_mode():
        out = model.generate(**tokenizer(text, return_tensors='pt').to(model.device), tokenizer=None)
""",
        "    with mesh:\n        out = rt.generate(model, **tokenizer(text, return_tensors='np'), tokenizer=None)",
    ),
    (
        """\
ids = tokenizer('a', return_tensors='pt')
with torch.no_grad(), open('o') as file:
    out = model.generate(**ids)
""",
        "with mesh, open('o') as file:\n",
    ),
]


@pytest.mark.parametrize(("text", "part"), CALLS)
def test_calls_and_their_token_ids(text: str, part: str) -> None:
    check_becomes(script(text), part, gone=("cuda", "import torch"))


def test_a_baseline_before_training_has_no_end_token_of_the_trainers() -> None:
    before = IDS + "print(tokenizer.decode(model.generate(**ids)[0]))\n"
    check_becomes(HEAD + before + TRAIN, "tokenizer.decode(rt.generate(model, **ids)[0])")


def test_a_model_that_is_handed_on() -> None:
    lines = ["def ask(model, tokenizer, text):", "    batch = tokenizer([text], return_tensors='pt').to(model.device)"]
    lines += [
        "    with torch.no_grad():",
        "        out = model.generate(**batch)",
        "    return tokenizer.batch_decode(out)",
    ]
    found = check_becomes(
        script(*lines, "ask(model, tokenizer, 'a')"),
        "batch = tokenizer([text], return_tensors='np')\n",
        "    with mesh:\n        out = rt.generate(model, **batch, tokenizer=tokenizer)\n",
    )
    assert not found.findings or {finding.severity for finding in found.findings} == {"info"}


def test_everything_in_one_function() -> None:
    """The mesh is that function's own; elsewhere the guard needs another context."""
    body = "".join(
        f"    {line}\n" for line in (HEAD.partition("rows")[1] + HEAD.partition("rows")[2] + TRAIN).splitlines()
    )
    ask = "def ask(model, tokenizer):\n    with torch.no_grad():\n        return model.generate(**tokenizer('a'))\n\n\n"
    text = HEAD.partition("rows")[0] + ask + "def main():\n" + body + "    print(ask(model, tokenizer))\n\n\nmain()\n"
    check_becomes(
        text, "with contextlib.nullcontext():\n        return rt.generate(model, **tokenizer('a'), tokenizer=tok"
    )


def test_a_decorator_goes_with_the_gradients() -> None:
    lines = [
        "@torch.no_grad()",
        "def ask():",
        "    return model.generate(**tokenizer('a', return_tensors='pt'))",
        "ask()",
    ]
    check_becomes(script(*lines), "\ndef ask():\n", gone=("no_grad",))


def test_adapters_put_in_behind_the_training() -> None:
    text = "from peft import LoraConfig, get_peft_model\n" + script("model = get_peft_model(model, LoraConfig(r=4))")
    found = port(text + "print(model.generate(**tokenizer('a', return_tensors='pt')))\n")
    assert "print(rt.generate(model, **tokenizer('a', return_tensors='np'), tokenizer=tokenizer))" in found.after


def test_the_tokenizer_that_the_trainer_holds() -> None:
    found = check_becomes(
        script("trainer.tokenizer.save_pretrained('out')", "print(trainer.processing_class.decode([1]))"),
        "tokenizer.save_pretrained('out')\nprint(tokenizer.decode([1]))",
    )
    assert "trainer.tokenizer" not in found.after


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_decorator_that_keeps_gradients_away_goes_with_its_line(newline: str) -> None:
    asks = (
        "@torch.inference_mode()\ndef ask(text):\n    return model.generate(**tokenizer(text, return_tensors='pt'))\n"
    )
    script = sft_script(imports="import torch", before="tokenizer = AutoTokenizer.from_pretrained('x')", after=asks)
    after = port(script.replace("\n", newline)).after
    assert "inference_mode" not in after and after.count("AutoTokenizer\n".replace("\n", newline)) == 1
    assert f"{newline}def ask(text):{newline}    return rt.generate(model, " in after


CALLED = 'print(complete("a", model, tok))'
TRIED = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B", padding_side="left")


def complete(query, model, tok):
    ids = tok(query, return_tensors="pt").to("cuda")
    return tok.batch_decode(model.generate(**ids, max_new_tokens=8))[0]

{before}
trainer = SFTTrainer(model, train_dataset=load_dataset("x", split="train"))
trainer.train()
{behind}
"""


@pytest.mark.parametrize(
    ("before", "behind", "given", "said"),
    [("", CALLED, True, False), (CALLED, "", False, False), (CALLED, CALLED, False, True)],
)
def test_a_tokenizer_that_the_trainer_makes_is_not_there_before(
    before: str, behind: str, given: bool, said: bool
) -> None:
    found = port(TRIED.format(before=before, behind=behind))
    assert ("max_new_tokens=8, tokenizer=tokenizer)" in found.after) is given
    warned = [one.message for one in found.recipe.findings if "also runs before the training" in one.message]
    assert bool(warned) is said


@pytest.mark.parametrize(
    ("said", "stays"), [("  # disable gradient calculations", ""), ("  # no grads", ""), ("  # by rows", "  # by rows")]
)
def test_a_comment_on_gradients_goes_with_their_guard(said: str, stays: str) -> None:
    after = port(script(IDS, f"with torch.no_grad():{said}", "    print(model.generate(**ids))")).after
    assert f"with mesh:{stays}\n    print(rt.generate(" in after


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        ("{'type': 'image', 'image': 'a.png'}", "image"),
        ("{'type': 'image'}, {'type': 'audio', 'audio': sound}", "audio and image"),
        ("{'type': 'image', 'url': 'https://some.where/a.png'}", "image"),
        ("{'type': 'video', 'path': sys.argv[1]}", "video"),
        ("{'type': 'text', 'text': 'an image'}", ""),
        ("{'type': 'image', 'width': 3}", ""),  # no part of a message
    ],
)
def test_what_messages_show_beside_their_text_is_not_seen(part: str, kinds: str) -> None:
    lines = f"messages = [{{'role': 'user', 'content': [{part}, {{'type': 'text', 'text': 'What is it?'}}]}}]\n"
    lines += "ids = tokenizer.apply_chat_template(messages, return_tensors='pt', return_dict=True)\n"
    found = port(script(lines + "model.generate(**ids)"))
    said = [each.message for each in found.findings if each.message.startswith("Messages with")]
    assert said == ([f"Messages with {kinds}: {SEEN}"] if kinds else [])


SEEN = "Tunix's model is of text alone, and the port answers without what they show."

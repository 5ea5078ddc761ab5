"""The trained model called by itself: `model(**inputs, labels=ids)` for its loss, `model(ids).logits`."""

import pytest

from .porting import port, sft_script

HEAD = "tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')\n"


def script(*lines: str) -> str:
    return sft_script(HEAD, imports="import torch", after="\n".join(["trainer.train()", *lines]))


CALLS = [
    (
        """\
inputs = tokenizer("some text", return_tensors="pt").to(model.device)
with torch.no_grad():
    outputs = model(**inputs, labels=inputs["input_ids"])
print(torch.exp(outputs.loss))""",
        """\
inputs = tokenizer("some text", return_tensors="pt")
with torch.no_grad():
    outputs = rt.causal_lm_output(model, **inputs, labels=inputs["input_ids"])
print(torch.exp(outputs.loss))""",
    ),
    (
        """\
def best(model, text):
    ids = tokenizer(text, return_tensors="pt")["input_ids"].to("cuda")
    mask = torch.ones_like(ids).to(torch.long)
    return trainer.model(ids, attention_mask=mask, use_cache=False).logits[0, -1].argmax().item()
print(best(model, "some text"))""",
        """\
def best(model, text):
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    mask = torch.ones_like(ids).to(torch.long)
    return rt.causal_lm_output(model, ids, attention_mask=mask, use_cache=False).logits[0, -1].argmax().item()
print(best(model, "some text"))""",
    ),
    (
        """\
def loss_of(model, texts):
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    batch = {k: v.cuda() for k, v in batch.items()}
    return model(**batch, labels=batch["input_ids"])["loss"].item()
print(loss_of(model, ["some text"]))""",
        """\
def loss_of(model, texts):
    batch = tokenizer(texts, return_tensors="np", padding=True)
    return rt.causal_lm_output(model, **batch, labels=batch["input_ids"])["loss"].item()
print(loss_of(model, ["some text"]))""",
    ),
    (
        """\
inputs = tokenizer("some text", return_tensors="pt")
print(model(**inputs).logits.shape, inputs["input_ids"].to("cuda").shape, inputs.input_ids.cuda().to(torch.long))""",
        """\
inputs = tokenizer("some text", return_tensors="pt")
print(rt.causal_lm_output(model, **inputs).logits.shape, inputs["input_ids"].shape, inputs.input_ids.to(torch.long))""",
    ),
]


@pytest.mark.parametrize(("before", "after"), CALLS)
def test_a_call_of_the_model_gives_what_transformers_gives(before: str, after: str) -> None:
    found = port(script(before))
    assert found.status == "ported" and after in found.after


@pytest.mark.parametrize(
    "call",
    [
        "model(**inputs, labels=inputs['input_ids']).loss.backward()",
        "model(**inputs, output_hidden_states=True).logits",
        "model(**inputs, return_dict=False)[0].loss",
        "model(inputs_embeds=torch.zeros(1, 2, 8)).logits",
        "model(*inputs).logits",
        "model(**inputs).past_key_values; x.logits",
    ],
)
def test_what_has_no_counterpart_is_an_error(call: str) -> None:
    found = port(script("inputs = tokenizer('some text', return_tensors='pt')", f"x = {call}"))
    assert found.status == "partial" and "causal_lm_output" not in found.after
    assert any("takes no torch tensors" in finding.message for finding in found.findings)


def test_a_model_loaded_again_is_called_too() -> None:
    again = """\
again = AutoModelForCausalLM.from_pretrained("out", dtype="bfloat16")
inputs = tokenizer("some text", return_tensors="pt").to(again.device)
print(again(**inputs).logits.shape)"""
    found = port(script("trainer.save_model()", again))
    assert 'again = rt.load_trained("out", mesh, dtype="bfloat16")' in found.after
    assert "print(rt.causal_lm_output(again, **inputs).logits.shape)" in found.after
    assert ".to(again.device)" not in found.after


def test_what_only_a_pipeline_gives_is_a_warning() -> None:
    """The GPU run's model has no such entry: it raises there, too."""
    (said,) = [f for f in port(script("print(model('some text')[0]['generated_text'])")).findings if f.rule == "TP190"]
    assert said.severity == "warning" and "no 'generated_text': the GPU run raises here" in said.message
    for other in ("model('some text')[0][0]", "model('some text')['text'][0]", "model('some text')[0]"):
        ported = port(script(f"print({other})"))
        assert ported.status == "partial" and "takes no torch tensors" in str(ported.findings), other


def test_a_model_in_a_dict_or_a_list_is_handed_on() -> None:
    for held in ("{'model': MODEL, 'tokenizer': tokenizer}", "[tokenizer, MODEL]", "{'a': (MODEL, 1)}"):
        for model, what in (("trainer.model", "trainer.model"), ("model", "this gets Tunix's model now")):
            lines = ("import tracker", f"tracker.log_model({held.replace('MODEL', model)}, path='model')")
            (said,) = [f for f in port(script(*lines)).findings if f.rule == "TP190"]
            assert what in said.message and said.severity == "error", said
    for quiet in ("print({'model': model})", "held = {'model': model}"):
        assert not [f for f in port(script(quiet)).findings if f.rule == "TP190"], quiet


def test_a_cell_that_shows_the_models_config() -> None:
    ported = port(script("model.config"))
    assert ported.status == "ported" and ported.after.endswith("rt.model_config(model)\n"), ported.after[-80:]


ASKS = """\
tuned = trainer.model
def answer(model, text):
    with torch.no_grad():
        return model.generate(**tokenizer(text, return_tensors="pt").to(model.device))
WITH:
    plain = answer(tuned, "a")
print(plain, answer(tuned, "a"))"""


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("with tuned.disable_adapter()", "with rt.disable_adapter(tuned)"),
        ("with trainer.model.disable_adapter()", "with rt.disable_adapter(trainer.model)"),
    ],
)
def test_another_name_of_the_trainers_model_and_the_base_behind_it(written: str, becomes: str) -> None:
    ported = port(script(ASKS.replace("WITH", written)))
    assert ported.status == "ported", ported.findings
    assert f"{becomes}:\n    plain = answer(tuned, " in ported.after and "import torch" not in ported.after
    assert "        return rt.generate(model, **tokenizer(text, return_tensors=" in ported.after


@pytest.mark.parametrize(
    ("items", "becomes"),
    [
        ("torch.no_grad(), model.disable_adapter()", "mesh, rt.disable_adapter(model)"),
        ("model.disable_adapter(), torch.no_grad()", "rt.disable_adapter(model), mesh"),
        ("open('x') as f, torch.no_grad(), torch.autocast('cuda')", "open('x') as f, mesh"),
        ("torch.autocast('cuda'), torch.inference_mode(), open('x') as f", "mesh, open('x') as f"),
        ("torch.no_grad(), open('x') as f, torch.autocast('cuda')", "mesh, open('x') as f"),
        ("torch.no_grad(), torch.autocast('cuda')", "mesh"),
    ],
)
def test_what_stands_beside_no_grad_is_ported_too(items: str, becomes: str) -> None:
    ids = 'print(model.generate(**tokenizer("a", return_tensors="pt")))'
    assert f"with {becomes}:\n    print(rt.generate(model" in port(script(f"with {items}:\n    {ids}")).after


def test_a_name_of_the_trainers_model_that_is_bound_anew_holds_another() -> None:
    again = ASKS.replace("WITH", "if True").replace("print(", "from peft import AutoPeftModelForCausalLM\nprint(")
    lines = "other = trainer.model\nother = load_elsewhere()\nother.forward_features()\n"
    ported = port(script(lines + again))
    assert "other.forward_features()" not in str(ported.findings)

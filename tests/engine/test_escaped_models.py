"""The trained model in a list, a dict or a choice: what is called on what comes out of it there is named."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

TOKENIZER = 'tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")'
ASKS = "generate(**tok('a', return_tensors='pt'))"


def said(after: str) -> list[str]:
    found = port(sft_script(TOKENIZER, after=f"trainer.train()\n{after}\n"))
    named = [each for each in found.findings if each.rule == "TP311" and each.severity == "error"]
    assert (found.status == "partial") is bool(named)
    return [each.message for each in named]


@pytest.mark.parametrize(
    ("after", "held"),
    [
        (f"for name, m in {{'tuned': trainer.model}}.items():\n    m.{ASKS}", "{'tuned': trainer.model}"),
        (f"for m in (model,):\n    m.{ASKS}", "model,"),
        (f"print([m.{ASKS} for m in [model]])", "[model]"),
        (f"held = [trainer.model]\nheld[0].{ASKS}", "[trainer.model]"),
        (f"def run(models):\n    for m in models:\n        m.{ASKS}\nrun([model])", "[model]"),
        ("for each in (model, tok):\n    each.save_pretrained('out')", "model, tok"),
        ("held = {'model': model}\nheld['model'].save_pretrained('out')", "{'model': model}"),
        (f"best = model if len(tok) else trainer.model\nbest.{ASKS}", "model if len(tok) else trainer.model"),
        (f"best = trainer.model or model\nbest.{ASKS}", "trainer.model or model"),
        (f"(m := trainer.model).eval()\nm.{ASKS}", "m := trainer.model"),
        (f"def pick(flag):\n    return model if flag else None\npick(1).{ASKS}", "model if flag else None"),
    ],
)
def test_a_call_of_what_may_be_the_model(after: str, held: str) -> None:
    (message,) = said(after)
    assert "this may be the model that was trained" in message and f"which {held} holds" in message


@pytest.mark.parametrize(
    "after",
    [
        f"print([model])\nmodel.{ASKS}",
        "held = [model, trainer]\ndel held\ntok.save_pretrained('out')",
        f"def both():\n    return model, tok\nm, t = both()\nm.{ASKS}",
        f"m, t = trainer.model, tok\nm.{ASKS}",
        "if model and tok:\n    print(model in (model, None))\nload().generate()",
        "held = {'model': model}\nprint(held)",
    ],
)
def test_what_is_followed_or_asks_nothing_of_it_is_not(after: str) -> None:
    assert said(after) == []


@pytest.mark.parametrize("made", ["trainer.model.eval()", "model.eval()", "trainer.model.to('cuda').eval()"])
def test_a_model_that_a_method_gives_back_is_followed(made: str) -> None:
    found = port(sft_script(TOKENIZER, after=f"trainer.train()\nm = {made}\nprint(m.{ASKS})\nm.save_pretrained('x')"))
    assert found.status == "ported", found.findings
    assert f"m = {made.partition('.to(')[0].removesuffix('.eval()')}\n" in found.after
    assert "print(rt.generate(model, " in found.after and "rt.save_model(model, 'x')" in found.after

"""What a script does with the token ids of generate, which are NumPy arrays in the port, and with what comes out."""

from __future__ import annotations

import pytest

from .generating_scripts import IDS, script
from .porting import check_becomes, port

PROMPT = "ids = tokenizer('a', return_tensors='pt').to(model.device)\n"


@pytest.mark.parametrize(
    ("use", "part"),
    [
        ("ids['attention_mask'].sum(dim=1).tolist()", "ids['attention_mask'].sum(axis=1).tolist()"),
        ("ids['attention_mask'].sum(-1, keepdim=True).cpu()", "ids['attention_mask'].sum(-1, keepdims=True)"),
        ("ids['attention_mask'].float().mean(dim=-1)", "ids['attention_mask'].astype(\"float32\").mean(axis=-1)"),
        ("ids.attention_mask.to(torch.bool)", 'ids.attention_mask.astype("bool")'),
        ("ids.attention_mask.bool().any(dim=0)", 'ids.attention_mask.astype("bool").any(axis=0)'),
        ("(ids['input_ids'] != 0).sum(dim=1).cpu().tolist()", "(ids['input_ids'] != 0).sum(axis=1).tolist()"),
        ("(ids['input_ids'] != 0).cpu()", "x = (ids['input_ids'] != 0)\n"),
        ("(0 == ids['input_ids']).long().cumsum(dim=-1)", "(0 == ids['input_ids']).cumsum(axis=-1)"),
        ("ids['input_ids'][0].unsqueeze(0).numel()", "ids['input_ids'][0][None].size"),
        ("ids['input_ids'].view(1, -1).cuda()", "x = ids['input_ids'].reshape(1, -1)\n"),
        ("ids['input_ids'].reshape(-1).cpu().numel()", "x = ids['input_ids'].reshape(-1).size\n"),
        ("ids['input_ids'].flatten().tolist()", "x = ids['input_ids'].flatten().tolist()\n"),
        ("ids['input_ids'].argmax(dim=-1).item()", "ids['input_ids'].argmax(axis=-1).item()"),
        ("ids['input_ids'].max().item()", "ids['input_ids'].max().item()"),
        ("ids['input_ids'].dim()", "ids['input_ids'].ndim"),
        ("out[0].size(0)", "out[0].shape[0]"),
        ("(out != 0).sum(dim=-1)", "(out != 0).sum(axis=-1)"),
    ],
)
def test_what_else_is_done_with_the_arrays(use: str, part: str) -> None:
    text = f"{PROMPT}out = model.generate(**ids)\nx = {use}\nprint(x)\n"
    check_becomes(script(text), part, "return_tensors='np'", gone=("import torch",))


@pytest.mark.parametrize(
    "use",
    [
        "out.max(dim=-1)", "out.repeat(4, 1)", "out.transpose(0, 1)", "out.unsqueeze(2)", "out.masked_fill_(mask, 1)",
        "(out == 0).nonzero()", "out.sum(dim=1).topk(2)", "out.sort(dim=-1)",
        "out.view(torch.int32)", "out.reshape(shape=(1, 2))", "out.flatten(0, 1)",
    ],
)  # fmt: skip
def test_what_an_array_does_otherwise_is_an_error_at_its_line(use: str) -> None:
    found = port(script(f"{PROMPT}out = model.generate(**ids)\nx = {use}\n"))
    assert [each.message for each in found.findings if "are a NumPy array in the port" in each.message], found.after


def test_token_ids_of_another_model_under_the_same_name_stay_torchs() -> None:
    """A notebook asks one model, then another: what is bound to a name again is another thing."""
    other = "other = AutoModelForCausalLM.from_pretrained(input()).to('cpu')\n"
    text = script(IDS + "out = model.generate(**ids)", other + IDS + "out = other.generate(**ids)", "out.to('cpu')")
    after = port(text).after
    assert "ids = tokenizer('a', return_tensors='np')\nout = rt.generate(" in after
    assert IDS.replace("'cuda'", '"cpu"') + "out = other.generate(**ids)\nout.to('cpu')\n" in after
    mixed = port(
        script(IDS, "if len(rows) > 9:", "    ids = tokenizer('b', return_tensors='pt')", "model.generate(**ids)")
    )
    assert "'pt'" not in mixed.after

"""Functions that collect the names of all linear layers, and those around them."""

import pytest

from porter.text.expressions import quoted

from .porting import port

COLLECTS = """\
    names = set()
    for name, module in model.named_modules():
        if isinstance(module, bnb.nn.Linear4bit):
            names.add(name.split(".")[-1])
    names.discard("lm_head")
"""
HEAD = """\
import bitsandbytes as bnb
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

"""
TRAINS = """\
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
{names}    trainer = SFTTrainer(
        model,
        args=SFTConfig("out", report_to="none"),
        train_dataset=load_dataset("some/rows", split="train"),
        peft_config=LoraConfig(r=8, target_modules={targets}),
    )
    trainer.train()
    return trainer
"""


TIED, UNTIED = "Qwen/Qwen3-0.6B", "meta-llama/Llama-2-7b-hf"


def indented(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))


def test_a_function_around_it_keeps_its_call() -> None:
    nested = f"    def find_all_linear_names(model):\n{indented(COLLECTS)}        return list(names)\n"
    body = TRAINS.format(names=nested, targets="find_all_linear_names(model)")
    found = port(f"{HEAD}def main(rank):\n{body}\nmain(8)\n")
    assert "main(8)\n" in found.after and "PeftTrainer(" in found.after
    assert 'targets="all-linear"' in found.after and "named_modules" not in found.after


def test_a_function_that_trains_as_well_keeps_its_call() -> None:
    body = TRAINS.format(names=COLLECTS, targets="list(names)")
    found = port(f"{HEAD}def main(rank):\n{body}\nmain(8)\n")
    assert "main(8)\n" in found.after and "def main(rank):" in found.after


@pytest.mark.parametrize(
    ("target", "refused"), [("embed_tokens", True), ("model.embed_tokens", True), ("v_proj", False)]
)
def test_adapters_on_the_embedding_of_a_model_that_the_run_names_are_an_error(target: str, refused: bool) -> None:
    lora = f'peft_config=LoraConfig(r=8, target_modules=["q_proj", "{target}"])'
    text = f"""
import sys
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

rows = load_dataset("json", data_files="rows.jsonl", split="train")
trainer = SFTTrainer(sys.argv[1], args=SFTConfig("out"), train_dataset=rows, {lora})
trainer.train()
"""
    found = port(text)
    said = [one for one in found.findings if "Qwix cannot adapt embeddings" in one.message]
    assert len(said) == refused and found.status == ("partial" if refused else "ported"), found.findings


LISTED = """\
def layers(model):
    common = {names}
    found = set()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            last = name.split(".")[-1]
            if last in common:
                found.add(last)
    return sorted(found)


def main():
{trains}

main()
"""


@pytest.mark.parametrize(
    ("names", "targets"),
    [
        ('{"v_proj", "q_proj", "c_attn"}', '["q_proj", "v_proj"]'),
        ('["q_proj", "lm_head"]', '["q_proj", "lm_head"]'),  # PEFT gives the head adapters as it does any other
        ('["q_proj", "embed_tokens"]', '["q_proj"]'),  # no Linear
        ('("c_attn",)', ""),
    ],
)
def test_layers_that_a_list_names(names: str, targets: str) -> None:
    trains = TRAINS.format(names="    wanted = layers(model)\n", targets="wanted").replace(TIED, UNTIED)
    found = port(HEAD.replace("bitsandbytes as bnb", "torch") + LISTED.format(names=names, trains=trains))
    assert (found.status == "ported") is bool(targets)
    assert (f"    wanted = {targets}\n" in found.after) is bool(targets)
    assert ("def layers" in found.after) is not bool(targets)


@pytest.mark.parametrize("model", [TIED, UNTIED])
@pytest.mark.parametrize("linear", ["torch.nn.Linear", "bnb.nn.Linear4bit"])
def test_a_head_that_stays_among_the_names_gets_adapters(linear: str, model: str) -> None:
    """bitsandbytes holds no head; a tied one is the embedding, which Qwix can't adapt."""
    collects = COLLECTS.replace("bnb.nn.Linear4bit", linear).replace('    names.discard("lm_head")\n', "")
    function = f"def find_all_linear_names(model):\n{collects}    return list(names)\n\n\n"
    body = TRAINS.format(names="", targets="find_all_linear_names(model)").replace(TIED, model)
    found = port(f"{HEAD}import torch\n\n\n{function}def main():\n{body}\nmain()\n")
    head = linear == "torch.nn.Linear"
    assert ("'lm_head']" in found.after) is head and ('"all-linear"' in found.after) is not head, found.after
    assert found.status == ("partial" if head and model == TIED else "ported"), found.findings
    assert "named_modules" not in found.after


def test_layers_that_two_lists_name() -> None:
    function = LISTED.replace("if last in common", 'if last in {{"k_proj"}} or last in common')
    trains = TRAINS.format(names="    wanted = layers(model)\n", targets="wanted")
    head = HEAD.replace("bitsandbytes as bnb", "torch")
    found = port(head + function.format(names='{"v_proj"}', trains=trains))
    assert found.status == "ported" and '    wanted = ["k_proj", "v_proj"]\n' in found.after


CHOOSES = """\
WANTED = ["q_proj", "v_proj"]


def tell(what):
    print("layer", what)


def keep(what):
    open(what, "w")


def layers(model, bits=4, train_mlp=False):
    cls = bnb.nn.Linear4bit if bits == 4 else (bnb.nn.Linear8bitLt if bits == 8 else torch.nn.Linear)
    names = set()
    for name, module in model.named_modules():
        if not isinstance(module, cls):
            continue
        last = name.split(".")[-1]
        CHOICE
    if "lm_head" in names:
        names.remove("lm_head")
    print(f"{len(names)} names")
    return list(names)


def main():
TRAINS

main()
"""
EVERY, ATTENTION = '"all-linear"', '["q_proj", "k_proj", "v_proj", "o_proj"]'
ADD = "names.add(last)"


def chosen(choice: str, call: str = "layers(model)", **swaps: str) -> str:
    """What `target_modules` of the port is; empty where the function stays, and is named."""
    text = CHOOSES.replace("CHOICE", choice.replace("\n", "\n        "))
    for old, new in swaps.items():
        text = text.replace(old, new)
    head = HEAD.replace("as bnb", "as bnb\nimport torch")
    found = port(head + text.replace("TRAINS", TRAINS.format(names=f"    wanted = {call}\n", targets="wanted")))
    stays = "named_modules" in found.after
    assert stays is any("named_modules" in finding.message for finding in found.findings)
    return "" if stays else found.after.partition("    wanted = ")[2].partition("\n")[0]


@pytest.mark.parametrize(
    ("choice", "targets"),
    [
        (ADD, EVERY),
        ("if any(part in name for part in ('vision_tower', 'projector')):\n    continue\n" + ADD, EVERY),
        ("names.add(name)", EVERY),
        ("if 'mlp' in name:\n    continue\n" + ADD, ATTENTION),
        (f"if name.endswith('proj') and 'self_attn' in name:\n    {ADD}", ATTENTION),
        (f"if not (last in WANTED or last == 'k_proj'):\n    continue\n{ADD}", '["q_proj", "k_proj", "v_proj"]'),
        (f"if last in WANTED:\n    continue\nif 'mlp' not in name:\n    {ADD}", '["k_proj", "o_proj"]'),
        (f"if bits not in (4, 8, 16):\n    raise ValueError(bits)\n{ADD}", EVERY),
        (f"if bits > 4:\n    raise ValueError(bits)\n{ADD}", EVERY),
        (f"tell(last)\n{ADD}", EVERY),
        (f"keep(last)\n{ADD}", ""),
        # PEFT knows a layer by the end of its name, and here it knows those of one layer alone
        ("if 'layers.0.' in name:\n    names.add(name)", ""),
        (f"if module.out_features > 99:\n    {ADD}", ""),
        (f"if train_mlp or 'mlp' not in name:\n    {ADD}", ATTENTION),
        ("names.add(name.split('.')[-2])", ""),  # `mlp` is no linear layer
        (f"module.requires_grad_(False)\n{ADD}", ""),
        ("if 'layers.31.' not in name:\n    names.add(name)", ""),
        (f"if name.split('.')[2] not in ('10', '11'):\n    {ADD}", ""),
        (f"skip = {{'mlp': str}}['mlp']()\n{ADD}", ""),
        (f"kept = [name for name in ('mlp',)]\nif kept[0] in name:\n    continue\n{ADD}", ATTENTION),
        (f"with open('names') as f:\n    {ADD}", ""),
        (f"{ADD}\nnames.add('lm_head')\nnames.add('embed_tokens')", ""),
        (f"while not names:\n    {ADD}", ""),
    ],
)
def test_a_choice_among_the_linear_layers_is_followed(choice: str, targets: str) -> None:
    assert chosen(choice) == targets


@pytest.mark.parametrize(
    ("call", "targets"),
    [
        ("layers(model, train_mlp=True)", EVERY),
        ("layers(model, train_mlp=len(load_dataset.__name__) > 3)", ""),  # only the run knows
        ("layers(model, 16)", ATTENTION),
        ("layers(model, len(load_dataset.__name__))", ATTENTION),
    ],
)
def test_what_a_call_gives_decides_the_choice(call: str, targets: str) -> None:
    assert chosen(f"if train_mlp or 'mlp' not in name:\n    {ADD}", call) == targets


def test_the_head_is_named_where_nothing_takes_it_out() -> None:
    stays = {'names.remove("lm_head")': "pass"}
    assert chosen(ADD, "layers(model, 4)", **stays) == EVERY  # bitsandbytes leaves the head as it is
    every = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj lm_head".split()
    assert chosen(ADD, "layers(model, 16)", **stays) == f"[{', '.join(map(quoted, every))}]"
    assert chosen(ADD, "layers(model, len(load_dataset.__name__))", **stays) == ""


@pytest.mark.parametrize("doubled", ["last = last + last", "many = [many, many]", "asked = bits == asked"])
def test_what_grows_without_end_is_not_followed(doubled: str) -> None:
    begins = {"names = set()": "names = set()\n    many = []\n    asked = bits"}
    line = f"for _ in range(99):\n    {doubled}\n{ADD}".replace("range(99)", repr([0] * 99))
    assert chosen(line, "layers(model, len(load_dataset.__name__))", **begins) == ""


@pytest.mark.parametrize(
    ("kept", "targets"),
    [
        ("isinstance(m, cls) if 'lm_head' not in n", EVERY),
        ("isinstance(m, cls) if 'lm_head' not in n if 'self_attn' in n", ATTENTION),
        ("isinstance(m, (cls, torch.nn.Conv2d)) and not n.endswith('lm_head')", EVERY),
        ("isinstance(m, (cls, torch.nn.Embedding)) and not n.endswith('lm_head')", ""),
        ("isinstance(m, (cls, KINDS)) and not n.endswith('lm_head')", ""),
        ("issubclass(m, cls) and not n.endswith('lm_head')", ""),
    ],
)
def test_layers_in_a_comprehension(kept: str, targets: str) -> None:
    made = f"    return sorted({{n.split('.')[-1] for n, m in model.named_modules() if {kept}}})"
    assert chosen("pass", **{"    return list(names)": made}) == targets
    assert chosen("pass", **{"    return list(names)": made.replace("model.named", "model.layers.named")}) == ""


def test_layers_in_a_list_and_lines_without_end() -> None:
    begins = {"names = set()": "names = []"}
    assert chosen("if last not in names:\n    names.append(last)", **begins) == EVERY
    nested = "for x in many:\n    for y in many:\n        for z in many:\n            x == y"
    assert chosen(f"{nested}\n{ADD}", **{"names = set()": f"names = set()\n    many = {[0] * 60}"}) == ""


def test_names_that_a_list_of_the_script_has_first() -> None:
    begins = {"names = set()": "names = list(WANTED)"}
    assert chosen("if last == 'k_proj':\n    names.append(last)", **begins) == '["q_proj", "k_proj", "v_proj"]'

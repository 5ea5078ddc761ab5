"""A device that nothing lies on, chosen by a question for a GPU: it goes with the lines that print it."""

import pytest

from .gpu_scripts import script
from .porting import port

SLIP = '"cuda" if torch.cuda.is_available() else "mps" if torch.backends_train.mps.is_available() else "cpu"'
CHOSEN = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize("chosen", [SLIP, CHOSEN])
@pytest.mark.parametrize(
    ("said", "more"),
    [
        ("", ""),
        ('print(f"Using device: {device}")\n', "model = model.to(device)\n"),
        ("print(device.type)\n", "model.to(device)\n"),
    ],
)
def test_a_device_that_nothing_lies_on_goes_with_what_tells_of_it(chosen: str, said: str, more: str) -> None:
    """Another library's question raised in the port where the answer for a GPU hid it; torch stayed for a name."""
    ported = port(script(f"device = {chosen}\n{said}", more=more))
    assert ported.status == "ported"
    assert "torch" not in ported.after and "device =" not in ported.after


def test_a_device_that_torch_s_tensors_lie_on_stays() -> None:
    ported = port(script(f"device = {CHOSEN}\nprint(device)\nprint(torch.zeros(2).to(device))\n"))
    assert f"device = {CHOSEN}\nprint(device)\n" in ported.after


BRANCHES = """if torch.cuda.is_available():
    device = {cuda}
    print("GPU:", torch.cuda.get_device_name(0))
elif torch.backends.mps.is_available():
    device = "mps"
else:
    device = {cpu}
"""


@pytest.mark.parametrize(("cuda", "cpu"), [('"cuda"', '"cpu"'), ('torch.device("cuda")', 'torch.device("cpu")')])
@pytest.mark.parametrize("said", ["", 'print(f"Using device: {device}")\n'])
def test_so_does_one_that_branches_choose(cuda: str, cpu: str, said: str) -> None:
    ported = port(script(BRANCHES.format(cuda=cuda, cpu=cpu) + said, more="model = model.to(device)\n"))
    assert ported.status == "ported"
    assert "torch" not in ported.after and "device =" not in ported.after and "mps" not in ported.after


@pytest.mark.parametrize(
    ("before", "more"),
    [
        ("", "print(torch.zeros(2).to(device))\n"),
        ("device = sys.argv[1]\n", ""),
        ("if len(sys.argv) > 2:\n    device = 'cuda:1'\n", ""),
    ],
)
def test_one_that_more_than_a_question_for_a_gpu_gives_stays(before: str, more: str) -> None:
    chosen = before + BRANCHES.format(cuda='"cuda"', cpu='"cpu"')
    after = port(script(f"{chosen}print(device)\n", more=more)).after
    assert 'device = "mps"' in after and 'device = "cpu"' in after and "print(device)" in after


WORDS = "tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')\n"
INPUTS = ("tokenizer('x', return_tensors='pt').to(device)", "{k: v.to(device) for k, v in tokenizer('x').items()}")


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("place", ["model.device", "next(model.parameters()).device", "trainer.args.device"])
def test_the_place_of_inputs_that_are_moved_nowhere_goes(place: str, inputs: str) -> None:
    """The models of Tunix have no such attribute."""
    lines = f"device = {place}\ninputs = {inputs}\nout = model.generate(**inputs, max_new_tokens=5)\n"
    ported = port(script(more=WORDS).replace("trainer.train()", f"trainer.train()\n{lines}"))
    assert ported.status == "ported" and "device =" not in ported.after and "(device)" not in ported.after


def test_the_place_of_what_torch_makes_is_the_host() -> None:
    lines = "device = next(model.parameters()).device\nprint(torch.zeros(2, device=device), torch.ones(1).to(device))\n"
    ported = port(script(more=WORDS).replace("trainer.train()", f"trainer.train()\n{lines}"))
    assert ported.status == "ported" and 'device = "cpu"\n' in ported.after

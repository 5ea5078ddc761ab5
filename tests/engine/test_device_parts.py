"""Devices whose text the script takes apart: the host's CPU has a number where the script reads the GPU's."""

from __future__ import annotations

import pytest

from .porting import errors, port, sft_script


def ported(after: str) -> tuple[str, list[str]]:
    """What is written of the device, and the expressions that are said to end the port."""
    found = port(sft_script(imports="import os\nimport torch", after=f"trainer.train()\n{after}"))
    return found.after, [message.split(" ends the port")[0] for message in errors(found) if "ends the port" in message]


@pytest.mark.parametrize(
    "reads",
    [
        'int(device.split(":")[1])',
        'int(device.split(":")[-1])',
        "int(device.rsplit(':', 1)[1])",
        'device.partition(":")[2]',
        "int(device[-1])",
        "print(torch.device(device).index)",
    ],
)
def test_a_number_by_its_place_is_the_hosts(reads: str) -> None:
    after, ends = ported(f'device = "cuda:1"\nprint({reads}, torch.ones(1, device=device))')
    assert 'device = "cpu:0"' in after and not ends


def test_a_name_for_what_stands_behind_the_colon_is_read() -> None:
    after, ends = ported(
        'device = "cuda:1"\nkind, number = device.split(":")\nprint(number, torch.ones(1, device=device))'
    )
    assert 'device = "cpu:0"' in after and not ends


@pytest.mark.parametrize(
    "reads",
    [
        'device.split(":")[0]',
        'name.split(":")[1]',
        'int(device.split("-")[1])',
        "device[0]",
        "torch.device(device)",
        "torch.device(device).index is None",
        "len(device.split(':'))",
    ],
)
def test_a_device_of_which_no_number_is_read_is_the_plain_host(reads: str) -> None:
    after, ends = ported(f'device = "cuda:1"\nname = "a:b"\nprint({reads}, torch.ones(1, device=device))')
    assert 'device = "cpu"\n' in after and not ends


@pytest.mark.parametrize(
    "reads",
    [
        'int(device.replace("cuda:", ""))',
        'int(device.removeprefix("cuda:"))',
        "int(device[5:])",
        'int(device.strip("cuda:"))',
    ],
)
def test_a_number_that_the_hosts_device_has_elsewhere_ends_the_port(reads: str) -> None:
    assert ported(f'device = "cuda:1"\nprint({reads}, torch.ones(1, device=device))')[1] == [reads]
    assert not ported(f'device = "cuda:1"\nprint(torch.ones(1, device=device))\ndef never():\n    print({reads})')[1]


CHOSEN = 'device = "cuda:0" if torch.cuda.is_available() else "cpu"\n'
READS = 'device.split(":")[1]'


def test_a_question_that_gives_no_number_ends_the_port() -> None:
    assert ported(f"{CHOSEN}print(int({READS}))")[1] == [READS]
    assert not ported(f"{CHOSEN}print(int({READS}))".replace('else "cpu"', 'else "mps:0"'))[1]
    assert not ported(f'{CHOSEN}print(int({READS}) if ":" in device else 0)')[1]
    assert not ported(f'{CHOSEN}if "cuda:" in device:\n    print(int({READS}))')[1]
    assert not ported(f"{CHOSEN}def never():\n    print(int({READS}))")[1]


@pytest.mark.parametrize(
    ("head", "call"), [("place", "device"), ('place="cuda:1"', "place=device"), ("place=device", "")]
)
def test_the_number_of_a_parameter(head: str, call: str) -> None:
    show = f"{CHOSEN}def show({head}):\n    return int(place.split(':')[1])\n"
    assert ported(f"{show}rows = show({call}) + 1")[1] == ["place.split(':')[1]"]
    assert not ported(f"{show}rows = show('a:1') + 1\nprint(torch.ones(1).to(device))")[1]

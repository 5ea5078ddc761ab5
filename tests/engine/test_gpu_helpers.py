"""Functions that give back something only where there is a GPU (TP526): what ends at them, what only tells of it."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

GIVES = """\
def memory():
    if torch.cuda.is_available():
        return {"allocated": torch.cuda.memory_allocated()}
    return None
"""


def ends(function: str, uses: str) -> list[str]:
    """The lines of the source at which the port is said to end."""
    text = sft_script(imports="import sys\nimport torch", after=f"trainer.train()\nkept = []\n{function}\n{uses}")
    found = [each for each in port(text).findings if each.rule == "TP526" and "the port ends here" in each.message]
    return [text.splitlines()[each.line - 1].strip() for each in found]


@pytest.mark.parametrize(
    "use",
    [
        'kept.append(memory()["allocated"])',
        "kept.append(memory().values())",
        "free, total = memory()",
        "kept += [key for key in sorted(memory())]",
        "kept.append(1 + memory())",
        "kept.append(memory() > 3)",
        "kept.append(f'{memory():.2f}')",
        "kept.append(dict(**memory()))",
        "kept.append(len(memory()))",
        "for key in memory(): kept.append(key)",
    ],
)
def test_what_none_does_not_have_ends_the_port(use: str) -> None:
    assert ends(GIVES, use) == [use]
    named = use.replace("memory()", "found")
    assert ends(GIVES, f"found = memory()\n{named}") == [named]
    assert ends(f"{GIVES}\ndef both():\n    return memory()", use.replace("memory", "both")) == [
        use.replace("memory", "both")
    ]


@pytest.mark.parametrize(
    "use",
    [
        "kept.append(memory())",
        "kept.append(memory() or {})",
        "kept.append(memory() is None)",
        "kept.append(f'{memory()}')",
        "kept.append('found %s' % memory())",
        "found = memory()\nkept.append(found['allocated'] if found else 0)",
        "found = memory()\nkept.append(found and found['allocated'])",
        "found = memory()\nif found is None:\n    sys.exit()\nkept.append(found['allocated'])",
        "found = memory()\nif found:\n    kept.append(found['allocated'])",
        "found = memory()\nfound = found or {}\nkept.append(found.get('allocated'))",  # what it holds isn't told
        "def never():\n    return memory()['allocated']",
    ],
)
def test_what_none_has_as_well_or_is_asked_first_does_not(use: str) -> None:
    assert ends(GIVES, use) == []


USE = "kept.append(memory()['allocated'])"
ON_GPU = "if torch.cuda.is_available():\n        "
HELD = "{'allocated': torch.cuda.memory_allocated()}"
PUT = f"{ON_GPU}found['allocated'] = torch.cuda.memory_allocated()\n    return found"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"if not torch.cuda.is_available():\n        return None\n    return {HELD}", True),
        (f"if not torch.cuda.is_available():\n        return {{}}\n    return {HELD}", True),
        (f"{ON_GPU}return {HELD}", True),
        (f"return {HELD} if torch.cuda.is_available() else None", True),
        (f"return None if not torch.cuda.is_available() else {HELD}", True),
        (f"found = {{}}\n    {PUT}", True),
        (f"found = {{'other': 0}}\n    {PUT}", True),
        (f"found = None\n    {ON_GPU}found = {HELD}\n    return found", True),
        # Something is given back there, or nothing at all; what else is asked decides as well.
        (f"{ON_GPU}return {HELD}\n    return {{'allocated': 0}}", False),
        (f"{ON_GPU}return {HELD}\n    raise ValueError(kept)", False),
        (f"{ON_GPU}return {HELD}\n    if kept:\n        return {{}}\n    return None", False),
        (f"found = {{'allocated': 0}}\n    {PUT}", False),
        (f"found = {{}}\n    found['allocated'] = 0\n    {PUT}", False),
        (f"return {HELD} if torch.cuda.is_available() else {{'allocated': 0}}", False),
        (f"if torch.cuda.is_available() or sys.argv[1:]:\n        return {HELD}", False),
        (f"if torch.cuda.is_available() or torch.backends.mps.is_available():\n        return {HELD}", True),
        (f"if torch.cuda.is_available() and sys.argv[1:]:\n        return {HELD}", True),
        (f"def inner():\n        {ON_GPU}    return {HELD}\n    return {{'allocated': inner()}}", False),
    ],
)
def test_what_a_function_gives_back_without_a_gpu(body: str, found: bool) -> None:
    assert ends(f"def memory():\n    {body}", USE) == ([USE] if found else [])


def test_a_method_is_known_by_its_name_where_no_other_class_has_it() -> None:
    body = (
        "class Watch:\n    def log(self):\n        if torch.cuda.is_available():\n            return {'allocated': 1}\n"
    )
    use = "kept.append(watch.log()['allocated'])"
    assert ends(f"{body}watch = Watch()", use) == [use]
    assert (
        ends(f"{body}class Other:\n    def log(self):\n        return {{'allocated': 2}}\nwatch = kept or Other()", use)
        == []
    )


SET = "if torch.cuda.is_available():\n    kind = torch.cuda.get_device_name(0).lower()\n    kept.append(kind)\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{SET}kept.append(kind)", "kept.append(kind)"),
        (f"{SET}def never():\n    kept.append(kind)", ""),
        (f"{SET}def late():\n    kept.append(kind)\nlate()", "kept.append(kind)"),
        (f"kind = ''\n{SET}kept.append(kind)", ""),
        (f"{SET}else:\n    kind = ''\nkept.append(kind)", ""),
        (f"{SET}if torch.cuda.is_available():\n    kept.append(kind + '!')", ""),
        (f"{SET}kept.append(kind)".replace("():", "() or kept:"), ""),
        (f"def late():\n    kept.append(kind)\n{SET}late()", "kept.append(kind)"),
        (
            f"for step in range(2):\n    if step:\n        kept.append(kind)\n    {SET.strip()}".replace(
                "\n    k", "\n        k"
            ),
            "",
        ),
        (
            f"class Card:\n    {ON_GPU}kind = torch.cuda.mem_get_info()\n    all = kind\nkept.append(Card().all)",
            "all = kind",
        ),
        ("class Card:\n    if torch.cuda.is_available():\n        kind = 3\nkept.append(Card().kind)", ""),
    ],
)
def test_a_variable_that_is_set_only_beside_a_gpu(text: str, line: str) -> None:
    whole = sft_script(imports="import torch", after=f"trainer.train()\nkept = []\n{text}")
    found = [each for each in port(whole).findings if "is set only where there is a GPU" in each.message]
    assert [whole.splitlines()[each.line - 1].strip() for each in found] == ([line] if line else [])


def test_a_line_that_only_tells_of_it_goes_with_its_variable() -> None:
    text = sft_script(
        imports="import torch", after=f"trainer.train()\n{GIVES}found = memory()\nprint(found['allocated'])"
    )
    assert "memory" not in port(text).after and "found" not in port(text).after
    other = text.replace("print(found['allocated'])", "print(found['allocated'])\nrows = [found]")
    assert "print(" not in port(other).after and "found = memory()" in port(other).after
    assert "print(found['allocated'], model)" in port(text.replace("'])\n", "'], model)\n")).after

"""Settings that are read within an f-string: until Python 3.12 its own quote can't stand in it."""

from __future__ import annotations

import ast

import libcst as cst
import libcst.matchers as m
import pytest

from .porting import PLAIN, port


def nested(text: str) -> list[str]:
    """The f-strings on one line with their own quote in an expression."""
    module = cst.parse_module(text)
    found = [node for node in m.findall(module, m.FormattedString()) if isinstance(node, cst.FormattedString)]
    blank = cst.Module([])
    return [
        module.code_for_node(node)
        for node in found
        for part in node.parts
        if isinstance(part, cst.FormattedStringExpression) and node.quote in blank.code_for_node(part.expression)
    ]


@pytest.mark.parametrize(
    ("folder", "line", "becomes"),
    [
        ('f"{root}/run"', 'trainer.save_model(f"{args.output_dir}/final")', '(model, f"{root}/run/final", '),
        ('f"{root}/run"', "trainer.save_model(f'{args.output_dir}/final')", "(model, f'{f\"{root}/run\"}/final', "),
        ('"run"', 'print(f"{args.output_dir}/{root}")', 'print(f"run/{root}")'),
        ("f'{root}/{names[\"a\"]}'", 'trainer.save_model(f"{args.output_dir}/x")', None),
        ("f'{root}/{names[\"a\"]}'", 'print(f"in {args.output_dir}")', None),
        ('f"{root}/run"', 'print(f"in {args.output_dir!r:>30}")', "print(f\"in {f'{root}/run'!r:>30}\")"),
        ('os.path.join(root, "run")', 'trainer.save_model(f"{args.output_dir}/final")', None),
        ('os.path.join(root, "it\'s")', 'print(f"{args.output_dir}/final")', None),
    ],
)
def test_a_port_is_pythons_before_3_12_too(folder: str, line: str, becomes: str | None) -> None:
    head, _, tail = PLAIN.partition("rows =")
    text = f"import os\n{head}root, names = '/tmp', dict(a=1)\nargs = SFTConfig(output_dir={folder})\nrows ={tail}"
    text = text.replace("SFTConfig('out')", "args")
    after = port(f"{text}{line}\n").after
    assert "args.output_dir" not in after and (becomes or "") in after
    ast.parse(after)
    assert not nested(after)


@pytest.mark.parametrize(
    ("shown", "becomes"),
    [
        ("{torch.cuda.device_count()} GPUs, {torch.cuda.device_count() * 2}", '"1 GPUs, {1 * 2}"'),
        ("{torch.cuda.device_count():>3}", '"{1:>3}"'),
        ("{torch.cuda.device_count()=}", '"{1=}"'),
    ],
)
def test_a_number_is_written_into_the_text(shown: str, becomes: str) -> None:
    after = port(f'import torch\n{PLAIN}print(f"{shown}")\n').after
    assert f"print(f{becomes})\n" in after
    ast.parse(after)

"""Where nodes stand is as libcst's own provider says it, in characters for its bytes."""

from itertools import accumulate
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from porter.source.source_text import code_and_spans

TEXT = """\
# coding: utf-8
@decorate  # wörter
def f(a, *, b: int = 1, **more) -> None:
\tfor x in (  # kept
\t\t1, 2,
\t):
\t\tprint(f"{x!r:>{b}} ü", a[1:, ...], not a, -b, lambda: (yield))
\telse: pass; del a


class A(B, metaclass=C): x: "list[int]" = []
if a:
    ...
elif not(b):
    with open("x") as y, z: raise E from e
try: assert a, b
except (A, B) as e: pass
finally: await_ = a if b else c
"""


@pytest.mark.parametrize(
    "text", [TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip(), Path(__file__).read_text(encoding="utf-8"), ""]
)
def test_spans_are_those_of_libcst(text: str) -> None:
    tree = cst.parse_module(text)
    code, spans = code_and_spans(tree)
    assert code == tree.code == text
    theirs = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)
    bytes_before = [0, *accumulate(len(character.encode()) for character in code)]
    bytes_before.append(bytes_before[-1] + 1)  # a line end that the text lacks counts for what it ends
    assert set(spans) == set(theirs)
    for node, (start, end) in spans.items():
        assert (bytes_before[start], bytes_before[end] - bytes_before[start]) == (
            theirs[node].start,
            theirs[node].length,
        )

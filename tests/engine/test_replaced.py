"""What edits replace is told alike, whether they were asked before, grew, shrank or were written anew."""

from dataclasses import replace

from porter.text.edit import Edit
from porter.text.replaced import Replaced


def edit(start: int, end: int, new: str = "") -> Edit:
    return Edit(start, end, new, "TP001", "a test", 1, 1)


def held(replaced: Replaced, edits: list[Edit]) -> list[int]:
    return [offset for offset in range(12) if replaced.holds(edits, offset)]


def test_the_list_may_grow_shrink_and_change() -> None:
    replaced, edits = Replaced(10), [edit(1, 3), edit(5, 5), edit(4, 6)]
    assert held(replaced, edits) == [1, 2, 4, 5]
    edits.append(edit(2, 4))
    assert held(replaced, edits) == [1, 2, 3, 4, 5]
    edits.remove(edits[0])
    assert held(replaced, edits) == [2, 3, 4, 5]
    edits[1] = replace(edits[1], start=8, end=9)
    assert held(replaced, edits) == [2, 3, 8]
    assert held(replaced, []) == []


def test_words_are_those_of_code_alone() -> None:
    replaced, edits = Replaced(10), [edit(0, 1, "a = rt.b('c')  # d\n"), edit(2, 3, 'f"{e}"')]
    assert replaced.written(edits) == {"a", "rt", "b", "f", "e"}
    edits.append(edit(4, 5, "g"))
    assert "g" in replaced.written(edits)
    assert replaced.written(edits[1:]) == {"f", "e", "g"}


def test_a_comment_at_an_edits_end_hides_no_word_of_the_next() -> None:
    assert Replaced(10).written([edit(0, 1, "x  # the rows' order"), edit(2, 3, "torch.y")]) == {"x", "torch", "y"}

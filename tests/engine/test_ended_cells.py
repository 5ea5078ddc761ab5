"""Cells of a notebook that ended with an error in the run that it was saved with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from porter.front.port_file import port_file
from tests.notebooks import cell, printed, saved

from .porting import PLAIN

MAKES, TRAINS = PLAIN.rstrip().rsplit("\n", 1)
SAID = "The run that the notebook was saved with ended here, "


def error(line: int = 1, name: str = "ValueError", said: str = "no rows", frame: str = "Cell In[3], line 9") -> Any:
    code = f"{frame}\n\x1b[0;32m----> {line}\x1b[0m trainer.train()\n"
    frames = ["-----", f"{name}  Traceback", code, "File /lib/trl.py:7, in train\n----> 1 raise"]
    return {"output_type": "error", "ename": name, "evalue": said, "traceback": frames}


def said(path: Path) -> list[tuple[int, str]]:
    return [(each.line, each.message) for each in port_file(path).findings if each.message.startswith(SAID)]


@pytest.mark.parametrize(
    ("source", "shown", "doing"),
    [
        (TRAINS, error(), "training"),
        (f"{TRAINS}\ntrainer.save_model('out')", error(), "training and saving"),
        (f"{TRAINS}\ntrainer.save_model('out')", error(2, frame="<ipython-input-3-0af> in <cell line: 0>()"), "saving"),
        (f"def main():\n    {TRAINS}\n\nmain()", error(4), "training"),
        (TRAINS, error(name="KeyboardInterrupt", said=""), ""),
        (TRAINS, error(name="NameError", said="name 'trainer' is not defined"), ""),  # cells that ran out of order
        (f"{TRAINS}\nprint(rows[9])", error(2), ""),  # behind what the port does
        (TRAINS, printed("done\n"), ""),
        ("print(rows[9])", error(), ""),
    ],
)
def test_a_cell_that_ended_in_training_or_saving_is_named(tmp_path: Path, source: str, shown: Any, doing: str) -> None:
    cells = [MAKES, cell(source, printed("step 1\n"), shown)]
    found = said(saved(tmp_path / "train.ipynb", *cells))
    assert len(found) == bool(doing)
    for _, message in found:
        assert message == f"{SAID}{doing} not done; the port goes on. It said ValueError: no rows."


def test_a_cell_that_ran_again_ended_well(tmp_path: Path) -> None:
    ended, again = cell(TRAINS, error()), {**cell(TRAINS, printed("done\n")), "execution_count": 5}
    assert not said(saved(tmp_path / "train.ipynb", MAKES, ended, again))
    assert len(said(saved(tmp_path / "train.ipynb", MAKES, {**ended, "execution_count": 7}, again))) == 1


def test_the_error_is_named_at_its_line(tmp_path: Path) -> None:
    found = port_file(saved(tmp_path / "train.ipynb", MAKES, cell(f"print(1)\n{TRAINS}", error(2))))
    warning = next(each for each in found.findings if each.message.startswith(SAID))
    assert warning.severity == "warning" and found.before.splitlines()[warning.line - 1] == TRAINS

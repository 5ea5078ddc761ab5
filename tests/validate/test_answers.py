"""What a script asks at its keyboard is answered, so that it goes on; both sides alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from porter.validate.stand_ins.command_line.answers import OFTEN, answer_to

RUN = """
import runpy, sys
from porter.validate.stand_ins.command_line.answers import answer_questions
answer_questions(lambda text: print("NOTE", text))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("question", "line", "answer"),
    [
        ("Continue anyway? (yes/no): ", "", "yes"),
        ("Overwrite? [y/N] ", "", "y"),
        ("Proceed (n/y)?", "", "y"),
        ("Type 'train' to continue: ", "", "train"),
        ("Press Enter to start", "", ""),
        ("Are you sure?", "", "y"),
        ("Epochs [3]: ", "", "3"),
        ("Precision (fp32/bf16): ", "", "fp32"),
        ("Number of epochs: ", "epochs = int(input('Number of epochs: '))", "1"),
        ("Enter your HF token: ", "", "tpu-port"),
        ("", "", ""),
    ],
)
def test_a_question_has_the_answer_that_goes_on(question: str, line: str, answer: str) -> None:
    assert answer_to(question, line) == answer


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(text)
    words = [sys.executable, "-c", RUN, str(script)]
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )


def test_a_script_that_asks_goes_on_and_it_is_said(tmp_path: Path) -> None:
    done = run(
        tmp_path, "import getpass, json\nprint(json.dumps([input('Go on? (y/n)'), getpass.getpass('API key: ')]))"
    )
    assert json.loads(done.stdout.splitlines()[-1]) == ["y", "tpu-port"], done.stderr
    assert "NOTE the script asks 'Go on? (y/n)': 'y' was answered" in done.stdout


def test_a_script_that_wants_another_answer_ends(tmp_path: Path) -> None:
    done = run(tmp_path, "while input('The magic word: ') != 'xyzzy':\n    pass\n")
    assert "EOFError" in done.stderr and done.stdout.count("NOTE") == OFTEN

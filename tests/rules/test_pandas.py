"""What a port's newer pandas does otherwise, where the script's is older; beside the cases of the pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from ..engine.porting import port, sft_script

IMPORT = "import pandas as pd"
FRAME = 'frame = pd.read_csv("rows.csv")\n'
OLD = {"source_trl": "0.16.0"}


def said(lines: str, **options: object) -> list[tuple[str, str]]:
    found = port(sft_script(f"{FRAME}{lines}\n", imports=IMPORT), **options)
    return [(each.severity, each.rule) for each in found.findings if each.rule in ("TP532", "TP533", "TP534", "TP544")]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("frame['n'][2:5] = 0", [("error", "TP532")]),
        ("frame['n'] = frame['n'].fillna(0)", []),
        ("frame.fillna('', inplace=True)", []),
        ("frame['n'].dropna(inplace=True)", []),
        ("frame[frame.n > 1]['n'] = 0", []),
        ("frame.loc[3, 'n'] = 0", []),
        ("rows = {'n': [1]}\nrows['n'][0] = 2", []),
        ("print(frame['label'].value_counts()[0])", [("warning", "TP534")]),
        ("print(frame['label'][0], frame.iloc[0]['label'], frame.iloc[0:2][0:1])", []),
        ("names = [name for name in frame.columns if frame[name].dtype == 'object']", [("warning", "TP544")]),
        ("frame['text'] = frame['text'].astype(str)", [("info", "TP544")]),
        ("frame['n'] = frame['n'].astype(int)", []),
        ("frame['n'].fillna(method='ffill')", [("error", "TP533")]),
        ("texts = []\ntexts.append(frame['text'])", []),
    ],
)
def test_habits_of_pandas_2(lines: str, expected: list[tuple[str, str]]) -> None:
    assert said(lines, **OLD) == expected


def test_a_script_that_may_have_had_pandas_3_is_asked_for_what_it_meant(tmp_path: Path) -> None:
    lines = "frame['text'].fillna('', inplace=True)"
    assert said(lines) == [("warning", "TP532")]
    path = tmp_path / "train.py"
    path.write_text(sft_script(f"{FRAME}{lines}\n", imports=IMPORT))
    for pin, stays in (("pandas==3.0.1", True), ("pandas==2.2.2", False)):
        (tmp_path / "requirements.txt").write_text(f"{pin}\n")
        found = port_file(path)
        assert (lines in found.after) is stays and not [each for each in found.findings if each.rule == "TP532"]


def test_frames_are_followed_into_functions() -> None:
    lines = (
        "def clean(rows):\n    rows['text'].fillna('', inplace=True)\n    return rows\n\nframe = clean(frame.dropna())"
    )
    found = port(sft_script(f"{FRAME}{lines}\n", imports=IMPORT), **OLD)
    assert "    rows['text'] = rows['text'].fillna('')\n" in found.after

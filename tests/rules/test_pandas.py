"""What a port's newer pandas does otherwise, where the script's is older; beside the cases of the pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_file import port_file

from ..engine.porting import port, sft_script

IMPORT = "import pandas as pd"
FRAME = 'frame = pd.read_csv("rows.csv")\n'
OLD = {"source_trl": "0.16.0"}
TOLD = ("TP532", "TP533", "TP534", "TP543", "TP544")


def said(lines: str, **options: object) -> list[tuple[str, str]]:
    found = port(sft_script(f"{FRAME}{lines}\n", imports=IMPORT), **options)
    return [(each.severity, each.rule) for each in found.findings if each.rule in TOLD]


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
        ("print(frame['label'].fillna('').value_counts()[0])", [("warning", "TP534")]),
        ("print(frame['label'].str.len()[0], frame.value_counts()[0])", []),
        ("labels = frame['label']\nprint(labels.value_counts()[0])", [("warning", "TP534")]),
        ("print(frame.value_counts()[0])\nif False:\n    frame['n'][2:5] = 0", []),
        ("frame[frame.n > 1].groupby('n').apply(len)", [("error", "TP543")]),
        ("frame.groupby('n', as_index=False).apply(len)", [("error", "TP543")]),
        ("frame.groupby('n').apply(len, include_groups=True)", [("error", "TP543")]),
        ("frame.groupby('n').apply(len, include_groups=False)", []),
        ("rows = {}\nrows.groupby('n').apply(len)", []),
        ("if False:\n    frame.groupby('n', as_index=False).apply(len)", []),
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


KEPT, FREED = "['n'].fillna(0, inplace=True)", "['n'] = {}['n'].fillna(0)"


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        ("for _ in range(2):\n    frame = frame.dropna()\nframe{}", "frame"),
        ("frame = frame[frame['text'].notna()][:9][['n']]\nframe{}", "frame"),
        ("frame = frame[~(frame.n > 1)]\nframe{}", "frame"),
        ("frame = frame[(frame.n > 1) & (frame.n < 9)]\nframe{}", "frame"),
        ("rows = load_dataset('x').to_pandas()\nrows{}", "rows"),
        ("def clean(rows: pd.DataFrame):\n    rows{}\n\nclean(frame)\nclean(frame.head())", "rows"),
        ("def read():\n    return pd.read_csv('a.csv')\n\nrows = read()\nrows{}", "rows"),
        ("def clean(rows: dict):\n    rows{}\n\nclean(frame)", ""),
        ("def clean(rows):\n    rows{}\n\nclean(frame)\nclean({{'n': texts}})", ""),
        ("for rows in pd.read_csv('a.csv', chunksize=9):\n    rows{}", ""),
        ("rows = pd.read_csv('a.csv', chunksize=9)\nrows{}", ""),
        ("rows = frame['text']\nrows{}", ""),
        ("rows = frame[name]\nrows{}", ""),
        ("rows = frame if frame.size else {{}}\nrows{}", ""),
    ],
)
def test_what_surely_is_a_frame(lines: str, rows: str) -> None:
    after = port(sft_script(f"{FRAME}{lines.format(KEPT)}\n", imports=IMPORT), **OLD).after
    assert (f"{rows}{FREED.format(rows)}" if rows else KEPT) in after, after


def test_a_column_that_is_an_attribute_and_one_that_is_set_undated() -> None:
    after = port(sft_script(f"{FRAME}frame.n.fillna(0, inplace=True)\n", imports=IMPORT), **OLD).after
    assert "\nframe.n = frame.n.fillna(0)\n" in after
    assert said("frame['n'][0] = 1") == [("warning", "TP532")]


def test_frames_are_followed_into_functions() -> None:
    lines = (
        "def clean(rows):\n    rows['text'].fillna('', inplace=True)\n    return rows\n\nframe = clean(frame.dropna())"
    )
    found = port(sft_script(f"{FRAME}{lines}\n", imports=IMPORT), **OLD)
    assert "    rows['text'] = rows['text'].fillna('')\n" in found.after

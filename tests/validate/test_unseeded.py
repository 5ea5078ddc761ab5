"""What a script draws without a seed is the same in two processes; a seed of its own stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RUN = """
import random
import numpy as np
from datasets import Dataset, DatasetDict
from porter.validate.stand_ins.unseeded import draw_alike
notes = []
draw_alike(notes.append)
data = Dataset.from_dict({"row": range(20)})
assert data.shuffle(seed=3)["row"][:] == data.shuffle(3)["row"][:] and not notes
data.train_test_split(test_size=5, shuffle=False)
assert not notes
print(data.shuffle()["row"][:], data.train_test_split(test_size=5)["test"]["row"][:], random.random(), np.random.rand())
print(DatasetDict({"train": data}).shuffle()["train"]["row"][:], {"a", "b", "c", "d", "e"})
assert notes
"""


def test_two_processes_draw_the_same() -> None:
    from porter.validate.processes import environment

    own = environment("port", dtype="float32", devices=1, online=False, tiny=True)
    own["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    runs = [
        subprocess.run([sys.executable, "-c", RUN], env=os.environ | own, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert runs[0].returncode == 0, runs[0].stderr
    assert runs[0].stdout == runs[1].stdout != ""

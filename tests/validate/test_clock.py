"""The time of day and new identifiers are the same in two runs, for the script alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

RUN = """
import runpy, sys
from pathlib import Path
from porter.validate.observing.clock import tell_alike
notes = []
tell_alike(Path(sys.argv[1]), notes.append)
runpy.run_path(sys.argv[2], run_name="__main__")
print(len(set(notes)), file=sys.stderr)
"""

SCRIPT = """
import datetime, os, pickle, secrets, time, uuid
from dataclasses import dataclass, field
from datetime import date, datetime as dt, timezone
from time import time as clock

@dataclass
class Run:
    at: dt = field(default_factory=dt.now)

print(dt.now().strftime("%Y%m%d_%H%M%S"), dt.now(timezone.utc), dt.today(), dt.utcnow(), date.today(), Run().at)
print(time.strftime("%H-%M-%S"), time.ctime(), time.asctime(), time.localtime().tm_sec, time.gmtime(None).tm_sec)
print(int(time.time()), clock(), time.time_ns())
print(uuid.uuid4(), uuid.uuid1().hex, secrets.token_hex(4), len(secrets.token_bytes()), os.urandom(3))
start = time.time()
time.sleep(0.01)
assert 0.01 < time.time() - start < 0.1
asked = 0
while time.time() - start < 5:  # comes to its end
    asked += 1
assert asked < 10_000
there = datetime.datetime(2024, 5, 6, 7)
assert pickle.loads(pickle.dumps(there)) == there and isinstance(dt.now(), datetime.datetime)
assert time.strftime("%Y", time.gmtime(0)) == "1970" and time.gmtime(0).tm_year == 1970
assert dt.fromtimestamp(0, timezone.utc).year == 1970 and dt.now(timezone.utc).tzinfo is timezone.utc
"""


def test_two_runs_at_different_times_see_one_time(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    def run() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", RUN, str(tmp_path), str(script)]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    first = run()
    time.sleep(1.1)
    second = run()
    assert first.returncode == 0, first.stderr
    assert second.stdout == first.stdout and len(first.stdout.splitlines()) == 4
    assert first.stderr.strip() == "1", "one note"
    assert abs(int(first.stdout.splitlines()[2].split()[0]) - time.time()) < 60


def test_libraries_see_the_real_time(tmp_path: Path) -> None:
    text = f"""
import json, logging, sys, time
from pathlib import Path
from porter.validate.observing.clock import tell_alike
Path({str(tmp_path)!r}, "started.txt").write_text("1000")
notes = []
tell_alike(Path({str(tmp_path)!r}), notes.append)
import pandas
record = logging.LogRecord("a", 0, "a", 0, "a", (), None)  # asks in the standard library
assert record.created > 10**9 and not notes
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

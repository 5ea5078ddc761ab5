"""SIGTERM and a training, with real signals in a process of its own; with a real trainer: tests/real/test_hosts.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import signal, sys, time
from types import SimpleNamespace
from porter.runtime.training.stopping import Stopping

class Trainer:
    is_managed_externally, train_steps = False, 0
    config = SimpleNamespace(checkpoint_root_directory="folder")
    _throttler = SimpleNamespace(wait_for_all=lambda: None)

    def train(self, term=None, fail=None):
        stopping = Stopping()
        stopping.begin(self)
        for self.train_steps in range(3):
            stopping.check(self)
            if self.train_steps == term:
                send()
            if self.train_steps == fail:
                raise ValueError
        stopping.ended(self)
        self.close()

    def close(self):
        if self.at_close:
            send()
        print("CLOSED", flush=True)

    at_close = False

def send():
    signal.raise_signal(signal.SIGTERM)

def failing(**settings):
    try:
        Trainer().train(fail=1, **settings)
    except ValueError:
        print("GOES ON", flush=True)
"""
CASES = {
    "a step": ("Trainer().train(term=1)", 143, "CLOSED"),
    "the last step": ("Trainer().train(term=2)", -15, "CLOSED"),
    "the last checkpoint": ("Trainer.at_close = True; Trainer().train()", -15, "CLOSED"),
    "behind it": ("Trainer().train(); send()", -15, "CLOSED"),
    "behind a failure": ("failing(); send()", -15, "GOES ON"),
    "before a failure": ("failing(term=1); time.sleep(20)", -15, "GOES ON"),
    "the training behind a failure": ("failing(); Trainer().train(term=0)", 143, "CLOSED"),
}
OWN = "signal.signal(signal.SIGTERM, lambda *_: print('OWN', flush=True)); "


def ran(statement: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", f"{SCRIPT}\n{statement}; print('ALIVE', flush=True)"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", CASES)
def test_a_signal_ends_the_process_whenever_it_comes(name: str) -> None:
    statement, status, said = CASES[name]
    code, output = ran(statement)
    assert code == status, output
    assert said in output and "ALIVE" not in output


def test_a_script_that_listens_itself_hears_it() -> None:
    code, output = ran(f"{OWN}Trainer().train(term=1); send()")
    assert (code, output.split()) == (0, ["OWN", "CLOSED", "OWN", "ALIVE"])


def test_the_signal_is_given_back() -> None:
    code, output = ran("Trainer().train(); assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL")
    assert (code, output.split()) == (0, ["CLOSED", "ALIVE"])

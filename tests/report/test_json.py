from __future__ import annotations

import json
from pathlib import Path

from porter import __version__
from porter.errors import InputError
from porter.report.json import error_document, port_document, to_text

from . import example

KEYS = ["tool", "version", "source", "output", "status", "trainer", "target", "fields", "findings", "edits"]
FIELD = ["source", "value", "fate", "target", "reason", "rule", "line", "column"]
FINDING = ["rule", "severity", "message", "fix", "line", "column"]


def test_a_port_has_the_documented_keys_in_their_order() -> None:
    document = json.loads(to_text(port_document(example.port(), Path("out.py"))))
    assert list(document) == KEYS
    assert document["tool"] == "tpu-port" and document["version"] == __version__
    assert (document["source"], document["output"], document["status"]) == ("train.py", "out.py", "partial")
    assert [list(field) for field in document["fields"]] == [FIELD] * 5
    assert [list(finding) for finding in document["findings"]] == [FINDING]


def test_edits_say_what_became_what_and_why() -> None:
    edits = port_document(example.port(), None)["edits"]
    assert edits[1] == {
        "rule": "TP130",
        "reason": "PeftTrainer takes batches",
        "line": 18,
        "column": 1,
        "before": example.TRAINER[0],
        "after": example.TRAINER[1],
    }


def test_without_an_output_it_is_null() -> None:
    assert port_document(example.port(), None)["output"] is None


def test_bad_input_is_an_object_of_the_same_keys() -> None:
    document = error_document(InputError("doesn't parse", "train.py", 3, 7, fix="mend it"))
    assert list(document) == KEYS
    assert document["status"] == "error" and document["source"] == "train.py"
    assert list(document["findings"][0]) == FINDING
    assert document["findings"][0]["line"] == 3 and document["findings"][0]["fix"] == "mend it"


def test_the_text_is_ascii() -> None:
    assert to_text({"a": "→"}).isascii()

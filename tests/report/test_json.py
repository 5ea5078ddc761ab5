from __future__ import annotations

import json
from pathlib import Path

from porter import __version__
from porter.engine.pipeline import port_module
from porter.errors import InputError
from porter.port import Options
from porter.report.json import error_document, port_document, to_text
from porter.source.parsing import parse_notebook
from tests.notebooks import notebook

from . import example

KEYS = ["tool", "version", "source", "output", "status", "trainer", "target", "fields", "findings", "edits"]
FIELD = ["source", "value", "fate", "target", "reason", "rule", "line", "column"]
FIELD += ["port_line", "port_text", "port_file", "port_lines"]
FINDING = ["rule", "severity", "message", "fix", "line", "column"]


def test_a_port_has_the_documented_keys_in_their_order() -> None:
    document = json.loads(to_text(port_document(example.port(), Path("out.py"))))
    assert list(document) == KEYS
    assert document["tool"] == "tpu-port" and document["version"] == __version__
    assert (document["source"], document["output"], document["status"]) == ("train.py", "out.py", "partial")
    assert [list(field) for field in document["fields"]] == [FIELD] * 5
    assert [list(finding) for finding in document["findings"]] == [FINDING]


def test_a_keyword_has_the_ports_line_and_what_reads_it() -> None:
    rows = {row["source"]: row for row in port_document(example.port(), None)["fields"]}
    rate, batch, dropped = (rows[name] for name in ("learning_rate", "per_device_train_batch_size", "torch_compile"))
    assert (rate["port_line"], rate["port_file"]) == (20, "train.py")
    assert rate["port_text"] == "schedule = optax.constant_schedule(1e-4)  # the source's"
    assert [place["line"] for place in batch["port_lines"]] == [8, 14]
    assert (dropped["port_line"], dropped["port_lines"]) == (None, [])


def test_a_line_of_a_notebook_counts_in_its_cell() -> None:
    cells = [
        "from trl import SFTConfig, SFTTrainer",
        "args = SFTConfig(\n    output_dir='out', max_steps=5\n)",
        "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\ntrainer.train()",
    ]
    port = port_module(parse_notebook(notebook(*cells).encode(), "train.ipynb"), Options(processes=1))
    [row] = [row for row in port_document(port, None)["fields"] if row["source"] == "SFTConfig.max_steps"]
    made = json.loads(port.data)["cells"][row["port_cell"] - 1]["source"]
    assert "".join(made).splitlines()[row["port_line"] - 1].strip() == row["port_text"] == "max_steps=5,"


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

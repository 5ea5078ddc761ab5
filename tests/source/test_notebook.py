"""Notebooks: read as one module, written back with every byte that no edit touches; nothing else is guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.errors import InputError
from porter.front.port_file import port_file
from porter.port import Options, Port
from porter.report.json import port_document

INSTALL = "!pip install -q -U trl peft transformers==4.40.0 wandb"
IMPORTS = f"{INSTALL}\nfrom datasets import load_dataset\nfrom trl import SFTConfig, SFTTrainer"
DATA = "rows = load_dataset('x', split='train')\nrows[0]"
TRAINER = "trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows)"


def code(source: str, *, lines: bool = True, **more: Any) -> dict[str, Any]:
    said = {"output_type": "stream", "name": "stdout", "text": ["0.5 \u2713\n"]}
    text = source.splitlines(keepends=True) if lines else source
    return {
        "cell_type": "code",
        "id": f"c{len(source)}",
        "metadata": {},
        "execution_count": 3,
        "outputs": [said],
        "source": text,
        **more,
    }


def notebook(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def plain(**metadata: Any) -> dict[str, Any]:
    words = {"cell_type": "markdown", "metadata": {}, "source": ["# Training\n", "as on a GPU"]}
    shell = code("%%bash\npip list\n")
    return notebook(words, code(IMPORTS), shell, code(DATA), code(TRAINER), code("%%time\ntrainer.train()"), **metadata)


def ported(folder: Path, text: str) -> tuple[Port, str]:
    path = folder / "train.ipynb"
    path.write_bytes(text.encode())
    port = port_file(path, Options(processes=1))
    return port, port.data.decode()


@pytest.mark.parametrize("indent", [None, 1, 2, "\t"])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("lines", [True, False])
def test_only_cells_that_changed_are_written_anew(tmp_path: Path, indent: Any, ascii_only: bool, lines: bool) -> None:
    before = notebook(
        code(IMPORTS, lines=lines), code(DATA, lines=lines), code(TRAINER + "\ntrainer.train()", lines=lines)
    )
    text = json.dumps(before, indent=indent, ensure_ascii=ascii_only) + "\n"
    port, got = ported(tmp_path, text)
    assert port.status == "ported", port.findings
    after = json.loads(got)
    assert got == json.dumps(after, indent=indent, ensure_ascii=ascii_only) + "\n"  # the file's own layout
    assert after["cells"][1] == before["cells"][1]
    for index in (0, 2):
        cell = after["cells"][index]
        assert (cell["outputs"], cell["execution_count"], cell["id"]) == ([], None, before["cells"][index]["id"])
        assert isinstance(cell["source"], list if lines else str)


def test_what_becomes_of_each_cell(tmp_path: Path) -> None:
    before = plain(accelerator="GPU", colab={"gpuType": "T4", "provenance": []})
    port, got = ported(tmp_path, json.dumps(before, indent=1))
    after = json.loads(got)
    sources = ["".join(cell["source"]) for cell in after["cells"]]
    assert sources[1].startswith('!pip install -q -U "tpu-port[tpu]" wandb\n')
    assert "import jax\n" in sources[1] and "trl" not in sources[1]
    assert [after["cells"][i] for i in (0, 2, 3)] == [before["cells"][i] for i in (0, 2, 3)]
    assert "PeftTrainer(" in sources[4]
    assert sources[5] == "%%time\nwith mesh:\n    trainer.train(batches)"
    assert after["metadata"] == {"accelerator": "TPU", "colab": {"gpuType": "V5E1", "provenance": []}}
    assert port.before.count("# %% [cell ") == 4  # the shell cell is none of Python's


@pytest.mark.parametrize("indent", [None, 1, "\t"])
def test_a_cell_of_which_nothing_is_left_goes(tmp_path: Path, indent: Any) -> None:
    config, gone = "args = SFTConfig('out', learning_rate=1e-4)", "import torch\ntorch.cuda.empty_cache()"
    words = {"cell_type": "markdown", "metadata": {}, "source": ["# Training"]}
    made = code(TRAINER.replace("SFTConfig('out')", "args"))
    cells = [code(gone), code(gone), words, code(IMPORTS), code(DATA), code(config), code(gone), made, words]
    before = notebook(*cells, code("trainer.train()"), code(gone))
    port, got = ported(tmp_path, json.dumps(before, indent=indent) + "\n")
    after = json.loads(got)
    assert got == json.dumps(after, indent=indent) + "\n"  # the file's own layout
    sources = ["".join(cell["source"]) for cell in after["cells"]]
    assert [*map(bool, sources)] == [True] * 6 and sources[0] == sources[4] == "# Training"
    assert sources[3].startswith("mesh = ") and sources[5] == "with mesh:\n    trainer.train(batches)"
    document = port_document(port, None)
    (rate,) = [row for row in document["fields"] if row["source"].endswith(".learning_rate")]
    assert (rate["cell"], rate["port_cell"]) == (6, 4)


@pytest.mark.parametrize(
    "line", ["%time trainer.train()", "%time result = trainer.train()", "%timeit -r 1 trainer.train()"]
)
def test_a_statement_that_a_magic_runs_is_read(tmp_path: Path, line: str) -> None:
    cells = [code(IMPORTS), code(DATA), code(TRAINER), code(f"x = 1\n{line}\nx")]
    port, got = ported(tmp_path, json.dumps(notebook(*cells)))
    source = "".join(json.loads(got)["cells"][3]["source"])
    assert port.status == "ported", port.findings
    assert "x = 1\nwith mesh:\n    trainer.train(batches)\n" in source and "%time" not in source


def test_imports_come_before_their_first_use(tmp_path: Path) -> None:
    cells = [
        "import random\nfrom transformers import AutoModelForCausalLM",
        DATA.replace("rows[0]", ""),
        "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')",
    ]
    last = (
        f"from trl import SFTConfig, SFTTrainer\n{TRAINER.replace(repr('Qwen/Qwen3-0.6B'), 'model')}\ntrainer.train()"
    )
    head = code("from datasets import load_dataset\n" + cells[0])
    _, got = ported(tmp_path, json.dumps(notebook(head, code(cells[1]), code(cells[2]), code(last))))
    sources = ["".join(cell["source"]) for cell in json.loads(got)["cells"]]
    assert "import jax" in sources[0] and "jax.make_mesh" in sources[2]


def test_a_notebook_without_training_comes_out_as_it_is(tmp_path: Path) -> None:
    text = json.dumps(notebook(code("!pip install trl\nprint(1)")), indent=1)
    port, got = ported(tmp_path, text)
    assert port.status == "unchanged" and got == text


def test_porting_a_port_changes_nothing(tmp_path: Path) -> None:
    _, once = ported(tmp_path, json.dumps(plain(), indent=1))
    assert ported(tmp_path, once)[1] == once


def test_places_are_those_in_the_cell(tmp_path: Path) -> None:
    cells = plain()["cells"]
    cells[4]["source"] = f"# the trainer\n{TRAINER.replace('train_dataset', 'compute_loss_func=score, train_dataset')}"
    port, _ = ported(tmp_path, json.dumps(notebook(*cells)))
    finding = next(finding for finding in port.findings if "compute_loss_func" in finding.message)
    assert port.place(finding.line, finding.column).startswith(f"{tmp_path / 'train.ipynb'} cell 5:2:")


def test_a_cell_that_is_no_python_stays_and_is_named(tmp_path: Path) -> None:
    cells = plain()["cells"]
    cells.insert(2, code("bucket = <YOUR-BUCKET>\nprint bucket"))
    port, got = ported(tmp_path, json.dumps(notebook(*cells), indent=1))
    assert port.status == "ported" and json.loads(got)["cells"][2] == cells[2]
    assert [finding.message for finding in port.findings if finding.rule == "TP000"] == [
        "Cell 3 is no Python (line 1 does not parse: invalid syntax): it stays as it is."
    ]
    assert port.before.count("# %% [cell ") == 4 and "PeftTrainer(" in port.after


@pytest.mark.parametrize("line", ["if not rows:\n    return", "f(a=1, a=2)"])
def test_a_cell_that_python_does_not_compile_stays_and_is_named(tmp_path: Path, line: str) -> None:
    cells = plain()["cells"]
    cells[2:2] = [code(line), code("from __future__ import annotations\nawait_ = 1"), code("await made()")]
    port, got = ported(tmp_path, json.dumps(notebook(*cells), indent=1))
    assert port.status == "ported" and json.loads(got)["cells"][2] == cells[2]
    (said,) = [finding.message for finding in port.findings if finding.rule == "TP000"]
    assert said.startswith("Cell 3 is no Python (line ") and "does not compile: " in said


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"cells": [}', "train.ipynb:1:12: is no notebook: broken JSON: Expecting value"),
        ('{"cells": 3}', "is no notebook: it has no list of cells"),
        ("[]", "is no notebook: it has no list of cells"),
        ('{"worksheets": [], "nbformat": 3}', "is a notebook of format 3"),
        ('{"cells": [{"cell_type": "code"}], "nbformat": 4}', "cell 1 has no source"),
        ('{"cells": [], "nbformat": 4}', "has no cell of Python"),
        (json.dumps(notebook(code("x <- 3"), language_info={"name": "R"})), "is a notebook in R, not Python"),
        (
            json.dumps(notebook(code("x = 1"), code("\n%cd ..\nx = SFTTrainer(\n"))),
            "train.ipynb cell 2:3:15: does not parse",
        ),
        (json.dumps(notebook(code("x = (1"))), "train.ipynb cell 1:1:5: does not parse: '(' was never closed"),
    ],
)
def test_bad_notebooks_are_told_in_one_line(tmp_path: Path, text: str, want: str) -> None:
    with pytest.raises(InputError) as error:
        ported(tmp_path, text)
    assert want in str(error.value) and "\n" not in str(error.value)

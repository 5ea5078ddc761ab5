"""A script alone whose model, adapters' config or arguments are made in other modules of its project."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from porter.cli.port import command
from porter.errors import InputError
from porter.front.output import write_port
from porter.front.port_file import port_file
from porter.front.port_script import port_script
from porter.port import Port
from porter.recipe import Receipt

SCRIPT = """\
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

{imports}

model, tokenizer = {load}("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", learning_rate=1e-4),
    train_dataset=load_dataset("json", data_files="rows.jsonl", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8),
)
trainer.train()
"""
MODELS = """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def load_model(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16, device_map="auto")
    return model, AutoTokenizer.from_pretrained(name)
"""


def ported(folder: Path, imports: str, load: str, script: str = "train.py", **modules: str) -> Port:
    """The port of `script` in a project of the modules: `src__models` is `src/models.py`."""
    folder.mkdir(exist_ok=True)
    (folder / "LICENSE").write_text("free\n")  # the root of a project
    files = {f"{name.replace('__', '/')}.py": text for name, text in modules.items()}
    for name, text in {script: SCRIPT.format(imports=imports, load=load), **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return port_script(folder / script)


def test_a_module_of_a_package_that_is_called_as_a_library_is(tmp_path: Path) -> None:
    """`utils/logging.py` was passed over, and what it does with the trainer left to a person."""
    logs = """\
from transformers import TrainerCallback


class Log(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        print(state.global_step, logs)


def install(trainer):
    trainer.add_callback(Log())
"""
    imports = "from models import load_model\nfrom utils.logging import install"
    folder = tmp_path / "p"
    ported(folder, imports, "load_model", models=MODELS, utils__logging=logs)
    script = (folder / "train.py").read_text().replace("trainer.train()", "install(trainer)\ntrainer.train()")
    (folder / "train.py").write_text(script)
    port = port_script(folder / "train.py")
    assert port.status == "ported" and "from logging_tunix import install" in port.after
    assert any("trainer.training_hooks.add(Log())" in module.after for module in port.modules)


def test_a_module_that_nothing_of_the_port_uses_is_not_written(tmp_path: Path) -> None:
    counts = """\
def print_counts(model):
    trained, total = 0, 0
    for _, parameter in model.named_parameters():
        total += parameter.numel()
        if parameter.requires_grad:
            trained += parameter.numel()
    print(f"{trained} of {total}")
"""
    imports = "from models import load_model\nfrom counts import print_counts"
    folder = tmp_path / "p"
    ported(folder, imports, "load_model", models=MODELS, counts=counts)
    script = (folder / "train.py").read_text().replace("trainer = ", "print_counts(model)\ntrainer = ")
    (folder / "train.py").write_text(script)
    port = port_script(folder / "train.py")
    assert port.status == "ported"
    assert [each.beside for each in port.modules] == ["models_tunix.py"] and "counts" not in port.after
    (said,) = [each for each in port.findings if "counts.py" in each.message]
    assert said.message.startswith("counts.py has no part in the port") and said.line == 6


def line_of(port: Port, start: str) -> str:
    return next(line for line in port.after.splitlines() if line.startswith(start))


@pytest.mark.parametrize(
    ("imports", "load", "written"),
    [
        ("from models import load_model", "load_model", "from models_tunix import load_model"),
        ("from models import load_model as load", "load", "from models_tunix import load_model as load"),
        ("from models import load_model; import models", "load_model", "import models_tunix as models"),
        ("from models import load_model; import os, models as m", "load_model", "import os, models_tunix as m"),
        ("from models import (\n    load_model,\n)", "load_model", "from models_tunix import ("),
    ],
)
def test_a_module_beside_the_script(tmp_path: Path, imports: str, load: str, written: str) -> None:
    port = ported(tmp_path, imports, load, models=MODELS)
    assert port.status == "ported"
    assert written in re.split(r"\n|; ", port.after)
    (module,) = port.modules
    assert (module.beside, module.status) == ("models_tunix.py", "ported")
    assert "rt.load_model(name, mesh" in module.after and "torch" not in module.after
    said = [(each.line, each.message) for each in port.findings if "beside the port" in each.message]
    assert said == [(5, "models.py is ported with this file: models_tunix.py, written beside the port.")]


def test_what_is_written(tmp_path: Path) -> None:
    folder, out = tmp_path / "project", tmp_path / "out"
    out.mkdir()
    port = ported(folder, "from models import load_model", "load_model", models=MODELS)
    written = write_port(port, out / "train_tunix.py")
    recipes = {"train_tunix.recipe.json", "models_tunix.recipe.json"}
    assert {path.name for path in written} == {"train_tunix.py", "models_tunix.py", *recipes}
    fates = json.loads((out / "models_tunix.recipe.json").read_text())["fields"]
    assert "AutoModelForCausalLM.torch_dtype" in {row["source"] for row in fates}
    assert (out / "models_tunix.py").read_text() == port.modules[0].after
    assert sorted(path.name for path in folder.iterdir()) == ["LICENSE", "models.py", "train.py"]


@pytest.mark.parametrize("name", ["models_tunix.recipe.json", "models_tunix.py"])
def test_a_file_of_the_users_is_not_replaced(tmp_path: Path, name: str) -> None:
    folder, out = tmp_path / "project", tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    port = ported(folder, "from models import load_model", "load_model", models=MODELS)
    with pytest.raises(InputError, match="exists"):
        write_port(port, out / "train_tunix.py")
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(name, "mine")]
    write_port(port, out / "train_tunix.py", force=True)
    assert (out / name).read_text() != "mine"


def test_the_report_has_each_of_the_files(tmp_path: Path) -> None:
    ported(tmp_path, "from models import load_model", "load_model", models=MODELS)
    result = CliRunner().invoke(command, [str(tmp_path / "train.py"), "--json"], standalone_mode=False)
    (module,) = json.loads(result.output)["modules"]
    assert (module["source"], module["status"]) == (str(tmp_path / "models.py"), "ported")
    shown = CliRunner().invoke(command, [str(tmp_path / "train.py")], standalone_mode=False).output
    assert f"--- {tmp_path / 'models.py'}" in shown and "+    model = rt.load_model(" in shown


def test_what_imports_a_module_that_changes_goes_with_it(tmp_path: Path) -> None:
    helpers = (
        "from models import load_model\nfrom rows import clean\n\n\ndef load(name):\n    return load_model(name)\n"
    )
    port = ported(
        tmp_path,
        "from helpers import load",
        "load",
        models=MODELS,
        helpers=helpers,
        rows="def clean(x):\n    return x\n",
    )
    assert port.status == "ported"
    assert {module.beside for module in port.modules} == {"models_tunix.py", "helpers_tunix.py"}
    helper = next(module for module in port.modules if module.beside == "helpers_tunix.py")
    assert helper.after.startswith("from models_tunix import load_model\nfrom rows import clean\n")


def test_a_script_that_is_started_from_above_its_folder(tmp_path: Path) -> None:
    """`python -m src.train`: Python doesn't look for modules beside the port by itself."""
    imports = "from src.common.models import load_model"
    port = ported(tmp_path, imports, "load_model", "src/train.py", src__common__models=MODELS, src__common____init__="")
    assert port.status == "ported"
    lines = port.after.splitlines()
    told = lines.index(
        "sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # the modules written beside this file"
    )
    assert lines[told + 1] == "from models_tunix import load_model"
    assert {"import os", "import sys"} <= set(lines[:told])
    ast.parse(port.after)
    rows = [place for row in port.fields if isinstance(row, Receipt) for place in row.places if not place.file]
    assert rows and all(place.text in lines[place.line - 1] for place in rows)


def test_a_module_of_a_package(tmp_path: Path) -> None:
    imports = "from .models import load_model"
    port = ported(tmp_path, imports, "load_model", "pack/train.py", pack__models=MODELS, pack____init__="")
    assert line_of(port, "from .") == "from .models_tunix import load_model"
    assert "sys.path" not in port.after


@pytest.mark.parametrize(
    ("imports", "load", "modules"),
    [
        ("import src.models", "src.models.load_model", {"src__models": MODELS}),
        ("from src.models import load_model", "load_model", {"src__models": f"HERE = __file__\n{MODELS}"}),
        ("from models import load_model", "load_model", {"models": f"import train\n{MODELS}"}),
        ("from src import models, rows", "models.load_model", {"src__models": MODELS, "src__rows": "A = 1\n"}),
    ],
    ids=["a dotted name", "files beside a module", "a circle", "two modules at once"],
)
def test_what_cant_be_written_beside_stays_a_todo(
    tmp_path: Path, imports: str, load: str, modules: dict[str, str]
) -> None:
    port = ported(tmp_path, imports, load, **modules)
    assert port.status == "partial" and not port.modules
    assert any("where this model comes from" in each.message for each in port.findings)


def test_a_script_that_is_ported_alone_stays_alone(tmp_path: Path) -> None:
    models = "def load_model(name):\n    return name, None\n"
    port = ported(
        tmp_path, "from models import load_model", 'load_model("x") and ("Qwen/Qwen3-0.6B", None) or ', models=models
    )
    assert not port.modules
    assert port.after == port_file(tmp_path / "train.py").after


def test_a_model_that_tunix_has_not_in_settings_of_another_module(tmp_path: Path) -> None:
    settings = """\
from dataclasses import dataclass


@dataclass
class ModelSettings:
    model_name: str = "google/gemma-3n-e2b-it"


@dataclass
class Settings:
    model: ModelSettings = None

    def __post_init__(self):
        self.model = ModelSettings()
"""
    models = MODELS.replace("def load_model(name):", "def load_model(settings):").replace(
        "(name", "(settings.model.model_name"
    )
    imports = "from models import load_model\nfrom settings import Settings"
    port = ported(tmp_path, imports, "(lambda load: load)(load_model)", models=models, settings=settings)
    script = (
        (tmp_path / "train.py")
        .read_text()
        .replace('(lambda load: load)(load_model)("Qwen/Qwen3-0.6B")', "load_model(Settings())")
    )
    (tmp_path / "train.py").write_text(script)
    port = port_script(tmp_path / "train.py")
    assert port.status == "partial"
    assert any(
        "google/gemma-3n-e2b-it (ModelSettings.model_name): Tunix doesn't have" in each.message
        for file in (port, *port.modules)
        for each in file.findings
    )


ROWS = """\
from datasets import Dataset, load_dataset


def load_rows(path):
    # Read what others wrote
    return load_dataset("json", data_files=path, split="train")


def with_more(rows: Dataset, more: list) -> Dataset:
    return Dataset.from_dict({"text": rows["text"] + more})
"""
WHOLE_ALONE = """\
from rows import load_rows, with_more
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

name = "Qwen/Qwen3-0.6B"
trainer = SFTTrainer(
    model=AutoModelForCausalLM.from_pretrained(name),
    args=SFTConfig(output_dir="out"),
    train_dataset=with_more(load_rows("rows.jsonl"), ["Hello"]),
    processing_class=AutoTokenizer.from_pretrained(name),
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("loads", "annotation", "changes"),
    [
        ("load_dataset", "", True),
        ("load_dataset", ": Dataset", True),
        ("company.read", ": Dataset", True),
        ("company.read", "", False),
    ],
)
def test_a_module_that_needs_a_change_beside_a_script_that_is_whole_alone(
    tmp_path: Path, loads: str, annotation: str, changes: bool
) -> None:
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / "train.py").write_text(WHOLE_ALONE)
    rows = ROWS.replace(": Dataset, more", f"{annotation}, more").replace("return load_dataset", f"return {loads}")
    (tmp_path / "rows.py").write_text(f"import company\n{rows}")
    assert port_file(tmp_path / "train.py").status == "ported"
    port = port_script(tmp_path / "train.py")
    assert port.status == "ported"
    assert [('list(rows["text"]) + more' in module.after) for module in port.modules] == [True] * changes
    assert ("from rows_tunix import load_rows, with_more" in port.after) is changes


def test_a_comment_goes_with_its_lines_in_a_module_too(tmp_path: Path) -> None:
    models = MODELS.replace(
        "    model =", "    # Free what an earlier run held\n    torch.cuda.empty_cache()\n\n    model ="
    )
    port = ported(tmp_path, "from models import load_model", "load_model", models=models)
    (module,) = port.modules
    assert "empty_cache" not in module.after and "Free what" not in module.after


def test_what_packs_say_of_names_holds_in_modules(tmp_path: Path) -> None:
    """A name that its library lost, which a module beside the script uses."""
    models = MODELS.replace("import torch\n", "import torch\nfrom datasets import load_metric\n")
    models = models.replace("def load_model", 'rouge = load_metric("rouge")\n\n\ndef load_model')
    port = ported(tmp_path / "p", "from models import load_model", "load_model", models=models)
    found = [(each, finding) for each in (port, *port.modules) for finding in each.findings]
    said = [(Path(each.path).name, finding.fix) for each, finding in found if finding.rule == "TP007"]
    assert said == [("models.py", "evaluate.load() loads the same metrics.")]


STARRED = """\
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

_hidden = 1


def load_model(name):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16, device_map="auto")
    return model, AutoTokenizer.from_pretrained(name)
"""


@pytest.mark.parametrize(
    ("imports", "modules"),
    [
        ("from models import *", {"models": STARRED}),
        ("from helpers import *", {"helpers": "from models import *\n", "models": STARRED}),
        ("from helpers import *", {"helpers": "from models import load_model\n", "models": STARRED}),
        ("from models import *", {"models": f'__all__ = ["load_model"]\n{STARRED}'}),
    ],
)
def test_all_names_of_a_module(tmp_path: Path, imports: str, modules: dict[str, str]) -> None:
    port = ported(tmp_path, imports, "load_model", **modules)
    assert port.status == "ported"
    assert re.search(r"^from \w+_tunix import \*$", port.after, re.MULTILINE)
    assert any("rt.load_model(name, mesh" in module.after for module in port.modules)


def test_names_that_a_module_keeps_for_itself(tmp_path: Path) -> None:
    """`__all__` says which, else an underscore does; a name of the script's own is its own."""
    closed = f'__all__ = ["_hidden"]\n{STARRED}'
    assert ported(tmp_path / "closed", "from models import *", "load_model", models=closed).status == "partial"
    hidden = STARRED.replace("load_model", "_load")
    assert ported(tmp_path / "hidden", "from models import *", "_load", models=hidden).status == "partial"
    own = "from models import *\n\n\ndef load_model(name):\n    return build(name)"
    assert ported(tmp_path / "own", own, "load_model", models=STARRED).status == "partial"


def test_what_a_script_takes_of_a_module_stays_imported_there(tmp_path: Path) -> None:
    """The module itself has no more use for it, and `from models import *` gives it to the script all the same."""
    imports = "from models import *\n\nother = AutoModelForCausalLM"
    port = ported(tmp_path, imports, "load_model", models=STARRED)
    (module,) = port.modules
    assert "from transformers import AutoModelForCausalLM, AutoTokenizer" in module.after
    assert "import torch" not in module.after
    asked = ported(tmp_path, "from models import *\n\nprint(torch.__config__.show())", "load_model", models=STARRED)
    assert "\nimport torch\n" in asked.modules[0].after


def test_a_change_that_cant_be_written_beside_is_said(tmp_path: Path) -> None:
    """The script alone was called ported, while its module still decided by a GPU that isn't there."""
    settings = (
        "import os\nimport torch\n\nROOT = os.path.dirname(__file__)\n\n\n"
        "def steps():\n    return 500 if torch.cuda.is_available() else 5\n"
    )
    script = SCRIPT.replace("{imports}", "from transformers import AutoModelForCausalLM, AutoTokenizer\n{imports}")
    script = script.replace("model, tokenizer = {load}", "tokenizer = AutoTokenizer.from_pretrained")
    script = script.replace("model=model", 'model="Qwen/Qwen3-0.6B"').replace("1e-4", "1e-4, max_steps=steps()")
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "settings.py").write_text(settings)
    (tmp_path / "train.py").write_text(script.replace("{imports}", "from src.settings import steps"))
    port = port_script(tmp_path / "train.py")
    assert (port.status, port.modules) == ("partial", ())
    (said,) = [each for each in port.findings if each.severity == "error"]
    assert said.message.startswith("src/settings.py would change with this file (") and "DIR -o OUT" in said.fix


LAZY = """\
\"\"\"Trains.\"\"\"
import click


def train():
    from app.models import load_model
    from datasets import load_dataset
    from trl import SFTConfig, SFTTrainer

    model, tokenizer = load_model("Qwen/Qwen3-0.6B")
    rows = load_dataset("some/rows", split="train")
    trainer = SFTTrainer(model, args=SFTConfig("out", max_steps=4), train_dataset=rows, processing_class=tokenizer)
    trainer.train()


click.command()(train)()
"""


def test_an_import_in_a_function_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "LICENSE").write_text("free\n")
    for name, text in {"app/cli/train.py": LAZY, "app/models.py": MODELS, "app/__init__.py": ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    port = port_script(tmp_path / "app/cli/train.py")
    assert port.status == "ported" and [each.beside for each in port.modules] == ["models_tunix.py"]
    told, used = port.after.index("sys.path.append("), port.after.index("    from models_tunix import load_model\n")
    assert port.after.index("import click\n") < told < port.after.index("def train") < used


def test_a_module_in_the_words_of_a_newer_python(tmp_path: Path) -> None:
    models = MODELS + '\n\ndef show(row):\n    print(f"{row["text"]}", f"""{row["a"]}\n    of {row["b"]}""")\n'
    port = ported(tmp_path, "from models import load_model", "load_model", models=models)
    assert port.status == "ported" and "from models_tunix import load_model" in port.after
    assert 'f"{row["text"]}"' in port.modules[0].after


LOOP = """\
from accelerate import Accelerator
from torch.optim import AdamW
from torch.utils.data import DataLoader

from helpers import collate, load_model, rows

accelerator = Accelerator()
model = load_model("Qwen/Qwen3-0.6B")
loader = DataLoader(rows(), batch_size=4, shuffle=True, collate_fn=collate)
optimizer = AdamW(model.parameters(), lr=1e-4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for batch in loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(loss)
"""
HELPERS = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, default_data_collator as collate


def rows():
    return load_dataset("some/rows", split="train")


def load_model(name):
    return AutoModelForCausalLM.from_pretrained(name)
"""


def test_a_line_that_a_message_names_is_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "train.py").write_text(LOOP)
    port = port_script(tmp_path / "train.py")
    said = [finding.message for finding in port.findings if "What the loop prints and logs" in finding.message]
    assert len(said) == 1 and "(line 18)" in said[0], [str(finding) for finding in port.findings]

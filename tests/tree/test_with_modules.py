"""A script alone whose model, adapters or arguments are made in other modules: which of them are ported with it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from porter.front.port_file import port_file
from porter.front.port_script import port_script
from porter.port import Port
from porter.recipe import Receipt

from .projects import MODELS, SCRIPT, ported, project

BEFORE = (
    "{} runs as it is before what the port imports of the project, and imports {}, which the port needs installed then."
)


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
    changed = ("trainer.train()", "install(trainer)\ntrainer.train()")
    port = ported(tmp_path / "p", imports, "load_model", changed=changed, models=MODELS, utils__logging=logs)
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
    changed = ("trainer = ", "print_counts(model)\ntrainer = ")
    port = ported(tmp_path / "p", imports, "load_model", changed=changed, models=MODELS, counts=counts)
    assert port.status == "ported"
    assert [each.beside for each in port.modules] == ["models_tunix.py"] and "counts" not in port.after
    (said,) = [each for each in port.findings if "counts.py" in each.message]
    assert said.message.startswith("counts.py has no part in the port") and said.line == 6


@pytest.mark.parametrize(
    ("package", "says"),
    [("from .train import main\n", True), ("from job.train import main\n", True), ("from .rows import ROWS\n", False)],
)
def test_a_package_that_imports_the_script_itself_needs_what_the_gpu_run_needs(
    package: str, says: bool, tmp_path: Path
) -> None:
    imports = "from .rows import ROWS\nfrom models import load_model"  # which the port has of models_tunix
    script = SCRIPT.format(imports=imports, load="load_model")
    files = {"__init__.py": package, "rows.py": "ROWS = []\n", "models.py": MODELS, "train.py": script}
    project(tmp_path, {f"job/{name}": text for name, text in files.items()})
    findings = port_script(tmp_path / "job" / "train.py").findings
    said = [each.message for each in findings if each.severity == "warning" and "__init__.py" in each.message]
    assert bool(said) is says
    if says:
        assert said == [BEFORE.format("job/train.py, which job/__init__.py imports,", "peft and trl")]


@pytest.mark.parametrize(
    ("package", "needs"),
    [("from kit.rows import ROWS\nfrom kit.models import load_model\n", True), ("from .rows import ROWS\n", False)],
)
def test_a_package_that_imports_the_original_of_what_is_ported_needs_torch(
    package: str, needs: bool, tmp_path: Path
) -> None:
    """`kit/__init__.py` runs before `kit.rows`, which the port imports, and with it the models.py of the GPU run."""
    imports = f"from {'kit' if needs else 'kit.models'} import load_model\nfrom kit.rows import ROWS"
    listed = "# /// script\n# dependencies = ['trl', 'torch']\n# ///\n"
    files = {"__init__.py": package, "rows.py": "ROWS = []\n", "models.py": MODELS}
    project(tmp_path, {f"kit/{name}": text for name, text in files.items()})
    (tmp_path / "train.py").write_text(listed + SCRIPT.format(imports=imports, load="load_model"))
    port = port_script(tmp_path / "train.py")
    assert port.status == "ported" and "from kit.rows import ROWS" in port.after
    said = [each.message for each in port.findings if each.severity == "warning" and "kit/" in each.message]
    assert said == ([BEFORE.format("kit/models.py, which kit/__init__.py imports,", "torch")] if needs else [])
    assert ('#     "torch",\n' in port.after) is needs


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


def test_a_library_that_a_ported_module_still_needs(tmp_path: Path) -> None:
    """torch was said in the module's own report alone, and taken from what the script's dependencies list."""
    weigh = "\n\ndef weigh(row):\n    return {'weight': float(torch.tensor(row['weights']).mean())}\n"
    listed = "# /// script\n# dependencies = ['trl', 'torch']\n# ///\n"
    script = SCRIPT.format(imports="from models import load_model, weigh", load="load_model")
    text = listed + script.replace("trainer = ", "print(weigh({'weights': [1, 2]}))\ntrainer = ", 1)
    project(tmp_path, {"models.py": MODELS + weigh, "train.py": text})
    port = port_script(tmp_path / "train.py")
    assert port.status == "ported" and '#     "torch",\n' in port.after
    (said,) = [each for each in port.findings if "beside the port" in each.message]
    assert said.severity == "warning" and said.line == 8
    assert re.search(r"models\.py:\d+: torch is still used here, so the port needs it installed\.$", said.message)


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


def test_the_folder_of_a_script_is_told_with_the_imports_that_it_has(tmp_path: Path) -> None:
    imports = "import os, sys\n\nfrom src.models import load_model"
    port = ported(tmp_path, imports, "load_model", "jobs/train.py", src__models=MODELS)
    assert "sys.path.append(" in port.after
    assert [line for line in port.after.splitlines() if line.startswith(("import os", "import sys"))] == [
        "import os, sys"
    ]


@pytest.mark.parametrize(
    ("script", "imports", "written"),
    [
        ("jobs/train.py", "from src.models import load_model", "from src.names import full"),
        ("jobs/train.py", "from src.inner.models import load_model", "from src.names import full"),
        ("src/train.py", "from .inner.models import load_model", "from .names import full"),
        ("src/jobs/train.py", "from ..inner.models import load_model", "from ..names import full"),
        ("lib/train.py", "from app.models import load_model", "from app.names import full"),
    ],
)
def test_relative_imports_of_a_module_that_is_written_elsewhere(
    script: str, imports: str, written: str, tmp_path: Path
) -> None:
    """Names that stay, which the module has to reach from beside the script, under the names that the script has."""
    inner, root = "inner" in imports, "lib/src/app" if "app" in imports else "src"
    lines = f"from {'..' if inner else '.'}names import full"
    models = f"{lines}\n{MODELS}".replace("from_pretrained(name", "from_pretrained(full(name)")
    place = f"{root}/inner" if inner else root
    names = "def full(name):\n    return name.strip()\n"
    packages = {f"{folder}/__init__.py": "" for folder in (root, place, Path(script).parent.as_posix())}
    files = {f"{place}/models.py": models, f"{root}/names.py": names}
    text = SCRIPT.format(imports=imports, load="load_model")
    project(tmp_path, {**packages, **files, script: text})
    port = port_script(tmp_path / script)
    assert port.status == "ported", [each.message for each in port.findings]
    (module,) = port.modules
    assert module.beside == "models_tunix.py" and written in module.after.splitlines()


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


def test_a_change_that_cant_be_written_beside_is_said(tmp_path: Path) -> None:
    """The script alone was called ported, while its module still decided by a GPU that isn't there."""
    settings = (
        "import os\nimport torch\n\nROOT = os.path.dirname(__file__)\n\n\n"
        "def steps():\n    return 500 if torch.cuda.is_available() else 5\n"
    )
    script = SCRIPT.replace("{imports}", "from transformers import AutoModelForCausalLM, AutoTokenizer\n{imports}")
    script = script.replace("model, tokenizer = {load}", "tokenizer = AutoTokenizer.from_pretrained")
    script = script.replace("model=model", 'model="Qwen/Qwen3-0.6B"').replace("1e-4", "1e-4, max_steps=steps()")
    script = script.replace("{imports}", "from src.settings import steps")
    project(tmp_path, {"src/settings.py": settings, "train.py": script})
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
    project(tmp_path, {"app/cli/train.py": LAZY, "app/models.py": MODELS, "app/__init__.py": ""})
    port = port_script(tmp_path / "app/cli/train.py")
    assert port.status == "ported" and [each.beside for each in port.modules] == ["models_tunix.py"]
    told, used = port.after.index("sys.path.append("), port.after.index("    from models_tunix import load_model\n")
    assert port.after.index("import click\n") < told < port.after.index("def train") < used


@pytest.mark.parametrize(
    ("changed", "written"),
    [
        (("", ""), False),
        (("print(stamp())", "print(stamp(), timed(print))"), True),
        (("import stamp", "import stamp, timed as clocked"), False),
        (("import stamp\n", "import stamp, timed as clocked\nclocked(print)\n"), True),
        (("print(stamp())", "print(stamp(), getattr(tools, tokenizer.name_or_path))"), True),
        (("print(stamp())", "print(stamp(), globals()['timed'])"), True),
    ],
)
def test_a_module_whose_change_no_run_comes_to_is_not_written(
    changed: tuple[str, str], written: bool, tmp_path: Path
) -> None:
    """Its evaluation manages the GPU; the script takes a date of it."""
    tools = """\
import time

import torch


def stamp():
    return time.time()


@torch.no_grad()
def timed(call):
    torch.cuda.synchronize()
    return call()


if __name__ == "__main__":
    timed(print)
"""
    imports = "import tools\nfrom models import load_model\nfrom tools import stamp\nprint(stamp())"
    assert changed[0] in imports
    port = ported(tmp_path / "p", imports.replace(*changed), "load_model", models=MODELS, tools=tools)
    assert port.status == "ported"
    assert [each.beside for each in port.modules] == ["models_tunix.py", *["tools_tunix.py"] * written]


@pytest.mark.parametrize(("taken", "written"), [("stamp", False), ("timed", True)])
def test_an_import_that_is_added_for_what_no_run_comes_to_changes_nothing(
    taken: str, written: bool, tmp_path: Path
) -> None:
    tools = """\
import time

import torch


def stamp():
    return torch.tensor(time.time())


def timed():
    return torch.distributed.get_rank() == 0 and time.time()
"""
    imports = f"from models import load_model\nfrom tools import {taken}\nprint({taken}())"
    port = ported(tmp_path / "p", imports, "load_model", models=MODELS, tools=tools)
    assert sorted(each.beside for each in port.modules) == ["models_tunix.py", *["tools_tunix.py"] * written]


@pytest.mark.parametrize(("taken", "needs"), [("load_model, helper", True), ("load_model", False)])
def test_what_one_ported_file_imports_another_may_use(taken: str, needs: bool, tmp_path: Path) -> None:
    """`models.py` doesn't use what it imports of tools.py, which asks for torch where it runs: the script does."""
    models = f"from tools import helper\n{MODELS}"
    tools = "def helper():\n    import torch\n\n    return torch.zeros(1)\n"
    imports = f"from models import {taken}" + "\nprint(helper())" * needs
    port = ported(tmp_path / "p", imports, "load_model", models=models, tools=tools)
    assert any("tools.py" in each.message and "torch (in helper)" in each.message for each in port.findings) is needs


@pytest.mark.parametrize(
    ("imports", "read"),
    [
        ("from unsloth import FastLanguageModel\nfrom trainer import make", "0.24.0"),
        ("from trainer import make\nfrom unsloth import FastLanguageModel", "0.15.2"),  # the module has TRL's own class
    ],
)
def test_a_trainers_module_is_dated_beside_unsloth_as_the_script_imports_it(
    tmp_path: Path, imports: str, read: str
) -> None:
    """`tokenizer=` in a file that doesn't import unsloth went against the project's pins."""
    script = f"""{imports}
from datasets import load_dataset

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen2.5-0.5B", load_in_4bit=True)
model = FastLanguageModel.get_peft_model(model, r=8)
make(model, tokenizer, load_dataset("some/rows", split="train")).train()
"""
    trainer = """from trl import SFTConfig, SFTTrainer


def make(model, tokenizer, rows):
    return SFTTrainer(model=model, tokenizer=tokenizer, train_dataset=rows, args=SFTConfig("out", max_seq_length=512))
"""
    pins = "trl==0.24.0\ntransformers==5.5.0\nunsloth==2026.7.6\n"
    project(tmp_path, {"main.py": script, "trainer.py": trainer, "requirements.txt": pins})
    (made,) = port_script(tmp_path / "main.py").modules
    assert f'trl="{read}"' in made.after

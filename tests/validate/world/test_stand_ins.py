"""Stand-ins for what isn't installed: there for the script alone, and quiet about what the script never used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUN = """
import sys
from types import SimpleNamespace
from porter.validate.running.script import run_script
from porter.validate.world.start import stand_in_world
notes = []
text = open(sys.argv[1], encoding="utf-8").read()
stand_in_world(SimpleNamespace(note=lambda text: text in notes or notes.append(text)), "port", [text], sys.argv[2])
code = run_script(sys.argv[1], [], __import__("pathlib").Path(sys.argv[2]))
print(*sorted(notes), sep="\\n")
sys.exit(code)
"""


def run(folder: Path, text: str) -> str:
    """What a script prints, and the notes, in a process of its own."""
    script = folder / "script.py"
    script.write_text(text, encoding="utf-8")
    words = [sys.executable, "-c", RUN, str(script), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    import os

    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_TOKEN", "WANDB_"))}
    root = Path(__file__).resolve().parents[3]
    return {**kept, "PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1"}


TRACKED = """
import json
import comet_ml
import swanlab
run = swanlab.init(project="p", config={"lr": 3})
print(swanlab.config.lr, run.config["lr"], json.dumps({"url": run.url, "key": comet_ml.get_global_experiment().id}))
swept = swanlab.sweep({"parameters": {"size": {"values": [4, 8]}, "rate": {"min": 0.5, "max": 1}}})
swanlab.agent(swept, function=lambda: print("agent", swanlab.config.size, swanlab.config.rate))
class Logger(comet_ml.Experiment):
    pass
Logger(1).log("x")
left, right = comet_ml.pair()
print(list(comet_ml.rows()), f"{comet_ml.memory / 2**30:.1f}", bool(comet_ml.run))
try:
    raise ValueError("mine")
except comet_ml.exceptions.CometError:
    print("caught another's error")
except ValueError as error:
    print(error)
"""


def test_trackers_take_everything_and_keep_the_config(tmp_path: Path) -> None:
    printed = run(tmp_path, TRACKED).splitlines()
    assert printed[0].startswith("3 3 ")
    assert printed[1:4] == ["agent 4 0.5", "[] 0.0 True", "mine"]
    assert [line.split()[0] for line in printed[4:]] == ["comet_ml", "swanlab"]


PLATFORMS = """
try:
    from google.colab import files
except ImportError:
    print("not in Colab")
import dvclive
from google.colab import userdata
import modal
app = modal.App("x")
@app.function(gpu="A100")
def train(n):
    return n + 1
print(train.remote(2), bool(userdata.get("HF_TOKEN")))
from huggingface_hub import HfApi, login
login(token="x")
HfApi().upload_folder(folder_path=".", repo_id="a/b")
"""


def test_platforms_answer_unless_the_script_copes_without(tmp_path: Path) -> None:
    printed = run(tmp_path, PLATFORMS).splitlines()
    assert printed[:2] == ["not in Colab", "3 True"]
    assert not any("dvclive" in line for line in printed), "imported, never used"
    assert "nothing was pushed to the Hub" in printed


MISSING = """
try:
    import gptqmodel
except ImportError as error:
    print(error)
try:
    import my_own_module
except ImportError as error:
    print(error)
"""


def test_what_needs_a_gpu_says_so_and_own_modules_are_never_made_up(tmp_path: Path) -> None:
    printed = run(tmp_path, MISSING).splitlines()
    assert printed[0].startswith("gptqmodel is not installed. GPTQ bases need a GPU")
    assert printed[1] == "No module named 'my_own_module'"


LIBRARY = """
import importlib.util
found = importlib.util.find_spec("comet_ml")
try:
    import swanlab
except ImportError:
    swanlab = None
"""


def test_libraries_go_on_believing_that_it_is_not_there(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "a_library.py").write_text(LIBRARY, encoding="utf-8")
    text = f"import sys\nimport comet_ml\nsys.path.append({str(packages)!r})\nimport a_library\n"
    assert run(tmp_path, text + "print(a_library.found, a_library.swanlab)\n").splitlines()[0] == "None None"


def test_the_runtimes_callback_of_a_tracker_has_it_also_where_a_library_calls_it(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "a_trainer.py").write_text("def train(callback, **given):\n    callback.on_log(**given)\n", "utf-8")
    text = f"""
import sys
sys.path.append({str(packages)!r})
import a_trainer
from porter.runtime.callbacks import TrainerControl, TrainerState
from porter.runtime.swanlab_callback import SwanLabCallback
state = TrainerState(global_step=1, is_world_process_zero=True)
a_trainer.train(SwanLabCallback("p"), args=None, state=state, control=TrainerControl(), logs={{"loss": 1.0}})
print("logged", "swanlab" in sys.modules)
"""
    assert run(tmp_path, text).splitlines()[0] == "logged True"


def test_a_trackers_callback_leaves_a_trainers_control_as_it_is(tmp_path: Path) -> None:
    text = """
from swanlab.integration.huggingface import SwanLabCallback
callback = SwanLabCallback(project="p")
print(callback.on_log(None, None, None, model=None), callback.on_log("told").sent)
"""
    assert run(tmp_path, text).splitlines()[0].startswith("None swanlab")


def test_a_port_writes_to_no_tensorboard_that_is_not_installed(tmp_path: Path) -> None:
    text = "from torch.utils.tensorboard import SummaryWriter\nSummaryWriter('x').add_scalar('a', 1)\nprint('on')\n"
    assert run(tmp_path, text).splitlines()[0] == "on"


def test_errors_of_the_hub_are_where_they_were(tmp_path: Path) -> None:
    text = (
        "from huggingface_hub.errors import RepositoryNotFoundError as today\n"
        "from huggingface_hub.utils._errors import RepositoryNotFoundError\nprint(RepositoryNotFoundError is today)\n"
    )
    assert run(tmp_path, text).splitlines()[0] == "True"


STARRED = """
from json import *
from pynvml import *
from huggingface_hub import snapshot_download

def memory():
    nvmlInit()
    return nvmlDeviceGetCount()

print(bool(memory()), loads("[1]"), snapshot_download("nobody/model", local_dir="here"))
"""


def test_names_of_a_library_that_stands_in_come_by_a_star_and_models_are_not_fetched(tmp_path: Path) -> None:
    printed = run(tmp_path, STARRED).splitlines()
    assert printed[0] == "True [1] here"
    assert any("nobody/model was not downloaded" in line for line in printed)

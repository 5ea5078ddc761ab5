"""Paths of single checkpoints, which Orbax doesn't name so: what reads one in a callback or behind the training."""

import pytest

from .porting import port, sft_script

CALLBACK = """class Mine(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        folder = os.path.join(args.output_dir, f"{named}-{{state.global_step}}")
        {lines}
        return control
"""
IMPORTS = (
    "import glob, json, os, shutil\nfrom pathlib import Path\nfrom transformers import TrainerCallback\n"
    "from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR"
)


def said(before: str = "", after: str = "", config: str = "") -> list[tuple[str, str]]:
    text = sft_script(before, imports=IMPORTS, after=f"trainer.train()\n{after}\n", config=config)
    found = [
        finding for finding in port(text).findings if finding.rule == "TP314" and "`checkpoint-500`" in finding.message
    ]
    return [(finding.severity, text.splitlines()[finding.line - 1].strip()) for finding in found]


@pytest.mark.parametrize("named", ["checkpoint", "{PREFIX_CHECKPOINT_DIR}"])
@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        ('shutil.copytree(folder, "/mnt/out")', "error"),
        ('state = json.load(open(os.path.join(folder, "trainer_state.json")))', "error"),
        ('names = Path(folder).glob("*.safetensors")', "error"),
        ('api.upload_folder(folder_path=folder, repo_id="a/b")', "error"),
        ("os.path.exists(folder) and print(folder)", "warning"),
        ('kwargs["model"].save_pretrained(folder)', ""),
        ('open(os.path.join(folder, "notes.txt"), "w").write("x")', ""),
        ('shutil.copy("notes.txt", folder)', ""),
        ("os.makedirs(folder, exist_ok=True)", ""),
        ('os.symlink(folder, "/mnt/out")', "error"),
        ('shutil.make_archive("/mnt/out", "zip", folder)', "error"),
    ],
)
def test_what_a_callback_reads_of_a_checkpoint_is_named(named: str, lines: str, severity: str) -> None:
    found = said(CALLBACK.format(named=named, lines=lines))
    assert found == ([(severity, lines)] if severity else [])


def test_what_happens_only_if_it_is_there_is_said_once() -> None:
    lines = (
        'old = os.path.join(folder, "pytorch_model.bin")\n        if os.path.exists(old):\n            os.remove(old)'
    )
    assert said(CALLBACK.format(named="checkpoint", lines=lines)) == [("warning", "if os.path.exists(old):")]


def test_a_callback_that_lists_checkpoints_finds_none() -> None:
    lines = 'names = glob.glob(os.path.join(args.output_dir, "checkpoint-*"))'
    assert said(CALLBACK.format(named="other", lines=lines)) == [("error", lines)]


@pytest.mark.parametrize(
    ("after", "severity"),
    [
        ('state = json.load(open(Path("out") / "checkpoint-100" / "trainer_state.json"))', "error"),
        ('text = (Path("out") / "checkpoint-100" / "trainer_state.json").read_text()', "error"),
        ('shutil.rmtree(f"out/checkpoint-{trainer.state.global_step}")', "error"),
        ('shutil.rmtree("out/" + "checkpoint-" + str(9))', "error"),
        ('print("out/checkpoint-100")', ""),
        ('shutil.rmtree("elsewhere/checkpoint-100")', ""),
    ],
)
@pytest.mark.parametrize("config", ["", ", learning_rate=float(os.environ['RATE'])"])
def test_what_is_read_behind_the_training_is_named(after: str, severity: str, config: str) -> None:
    assert said(after=after, config=config) == ([(severity, after)] if severity else [])


def test_what_is_read_in_front_of_the_training_is_of_another_run() -> None:
    assert said('json.load(open("out/checkpoint-100/trainer_state.json"))') == []


@pytest.mark.parametrize(
    ("output", "path", "named"),
    [
        ("./out/last", "/content/out/last/checkpoint-500", True),
        ("/content/out", "out/checkpoint-500", True),
        ("out", "/content/of_out/checkpoint-500", False),
    ],
)
def test_a_checkpoint_may_be_named_from_the_root(output: str, path: str, named: bool) -> None:
    lines = f'PeftModel.from_pretrained(model, "{path}")'
    text = sft_script(imports="from peft import PeftModel", after=f"trainer.train()\n{lines}\n")
    found = port(text.replace('output_dir="out"', f'output_dir="{output}"')).findings
    assert any("hold neither a config" in each.message for each in found) is named


@pytest.mark.parametrize(("folder", "named"), [("out/checkpoint-5", True), ("other/checkpoint-5", False)])
def test_a_checkpoint_that_the_next_trainer_starts_from(folder: str, named: bool) -> None:
    again = "trainer = SFTTrainer(model, args=SFTConfig('next', max_steps=5), train_dataset=rows)\ntrainer.train()\n"
    lines = f"trainer.train()\nmodel = AutoModelForCausalLM.from_pretrained('{folder}')\n{again}"
    found = port(sft_script("rows = load_dataset('x', split='train')", after=lines)).findings
    assert any("hold neither a config" in each.message for each in found) is named

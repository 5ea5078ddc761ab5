"""Checkpoint folders that a script takes as its final model."""

import pytest

from .porting import port, sft_script

IMPORTS = (
    "import os, shutil, subprocess\nfrom pathlib import Path\nfrom transformers import TrainerCallback\n"
    "from transformers.trainer_utils import get_last_checkpoint"
)
CALLBACK = """def keep(folder, final):
    shutil.copytree(folder, final)
class Mine(TrainerCallback):
    def on_train_end(self, args, state, control, **kwargs):
        {lines}
"""


def said(before: str = "", after: str = "", config: str = "") -> list[str]:
    text = sft_script(before, imports=IMPORTS, after=f"trainer.train()\n{after}\n", config=config)
    found = [finding for finding in port(text).findings if "Orbax's folder" in finding.message]
    assert all(finding.rule == "TP314" and finding.severity == "error" for finding in found)
    return [text.splitlines()[finding.line - 1].strip() for finding in found]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ('best = Path(state.best_model_checkpoint); final = Path("final"); shutil.copytree(str(best), str(final))', ""),
        ('shutil.move(state.best_model_checkpoint, "final")', ""),
        ('shutil.make_archive("final", "zip", state.best_model_checkpoint)', ""),
        ('os.symlink(state.best_model_checkpoint, "final")', ""),
        ('Path("final").symlink_to(state.best_model_checkpoint)', ""),
        ('Path(state.best_model_checkpoint).rename("final")', ""),
        ("kwargs['api'].upload_folder(folder_path=state.best_model_checkpoint, repo_id='a/b')", ""),
        ('subprocess.run(["cp", "-r", state.best_model_checkpoint, "final"])', ""),
        ('os.system(f"cp -r {state.best_model_checkpoint} final")', ""),
        ("self.best = state.best_model_checkpoint; shutil.copytree(self.best, 'final')", ""),
        ("best = state.best_model_checkpoint or get_last_checkpoint(args.output_dir); shutil.copytree(best, 'x')", ""),
        ("best: str = state.best_model_checkpoint; shutil.copytree(best, 'final')", ""),
        ("if best := state.best_model_checkpoint: shutil.copytree(best, 'final')", ""),
        ("keep(state.best_model_checkpoint, 'final')", "shutil.copytree(folder, final)"),
        ("shutil.copytree('notes', os.path.join(state.best_model_checkpoint, 'notes'))", None),
        ("shutil.copy(os.path.join(state.best_model_checkpoint, 'trainer_state.json'), 'x')", None),
        ("shutil.rmtree(state.best_model_checkpoint)", None),
        ("print(f'cp {state.best_model_checkpoint}')", None),
        ("subprocess.run(['du', state.best_model_checkpoint])", None),
    ],
)
def test_a_checkpoint_that_becomes_the_final_model_is_named(lines: str, found: str | None) -> None:
    told = said(CALLBACK.format(lines=lines))
    assert told == ([] if found is None else [found or lines])


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ('shutil.copytree(trainer.state.best_model_checkpoint, "final")', True),
        ('last = get_last_checkpoint("out")\nshutil.copytree(last, "final")', True),
        ('shutil.copytree("final", "best")', False),
    ],
)
def test_it_is_named_behind_the_training(after: str, found: bool) -> None:
    assert said(after=after) == ([after.splitlines()[-1]] if found else [])


def test_what_was_there_before_the_training_is_of_another_run() -> None:
    assert said('shutil.copytree(get_last_checkpoint("older"), "start")') == []


@pytest.mark.parametrize(("config", "best"), [("", False), (", load_best_model_at_end=True", True)])
def test_what_to_write_instead_is_said(config: str, best: bool) -> None:
    text = sft_script(
        imports=IMPORTS, after='trainer.train()\nshutil.move(trainer.state.best_model_checkpoint, "final")\n',
        config=f', eval_strategy="steps"{config}',
    )  # fmt: skip
    (found,) = [finding for finding in port(text).findings if "Orbax's folder" in finding.message]
    assert "rt.save_model(model, folder) behind the training" in found.fix
    assert ("when the model has the best weights" in found.fix) == best

"""What the porter can't follow is said where it stands, never kept in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.engine.pipeline import port_module
from porter.front.port_file import port_file
from porter.port import Options, Port
from porter.source.parsing import parse_module

from .porting import sft_script, write

TOP = """from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
"""
TRAINER = (
    "SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig(output_dir='o'), train_dataset=load_dataset('imdb', split='train'))"
)


def port(text: str, **options: str) -> Port:
    return port_module(parse_module(text.encode(), "train.py"), Options(**options))  # type: ignore[arg-type]


def said(ported: Port) -> list[tuple[int, str]]:
    return [(finding.line, finding.message) for finding in ported.findings if finding.severity != "info"]


def test_what_the_caller_hands_to_other_code_is_said() -> None:
    body = f"def build():\n    trainer = {TRAINER}\n    trainer.train()\n    return trainer\n"
    assert said(port(f"{TOP}{body}build()\n")) == []
    ported = port(f"import mine\n{TOP}{body}mine.look(build())\n")
    assert ported.status == "partial" and [line for line, _ in said(ported)] == [9]


def test_a_model_from_a_tuple_has_its_later_uses_answered() -> None:
    model = "model, n = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B'), 3\nmodel.config.use_cache = False\n"
    ported = port(
        f"{TOP}{model}trainer = {TRAINER.replace(chr(39) + 'Qwen/Qwen3-0.6B' + chr(39), 'model', 1)}\ntrainer.train()\n"
    )
    assert ported.status == "ported" and "use_cache" not in ported.after


def test_star_imports_hide_the_trainer() -> None:
    for library in ("trl", "transformers"):
        ported = port(f"from {library} import *\ntrainer = {TRAINER}\ntrainer.train()\n")
        assert ported.status == "unsupported" and "import *" in said(ported)[0][1]


@pytest.mark.parametrize(("release", "read"), [("0.15.0", "0.15.0"), ("", "0.19.1")])
def test_an_old_keyword_dates_the_script(release: str, read: str) -> None:
    text = f"{TOP}trainer = {TRAINER.replace('output_dir', 'max_seq_length=9, output_dir')}\ntrainer.train()\n"
    ported = port(text, **({"source_trl": release} if release else {}))
    assert f'trl="{read}"' in ported.after
    guessed = "the newest release with SFTConfig(max_seq_length=)" in ported.recipe.versions["trl"]
    assert guessed is not bool(release)


def test_a_config_that_is_gone_is_used_nowhere() -> None:
    held = "args = SFTConfig(output_dir='o')\nkw = dict(args=args, train_dataset=load_dataset('imdb', split='train'))\n"
    ported = port(f"{TOP}{held}trainer = SFTTrainer('Qwen/Qwen3-0.6B', **kw)\ntrainer.train()\n")
    assert ported.status == "partial" and any("args is used here" in message for _, message in said(ported))


def test_a_name_of_the_files_own_hides_no_library() -> None:
    ported = port(f"{TOP}optax = 3\ntrainer = {TRAINER}\ntrainer.train()\n")
    assert [line for line, _ in said(ported)] == [4]
    assert said(port(f"{TOP}other = 3\ntrainer = {TRAINER}\ntrainer.train()\n")) == []


@pytest.mark.parametrize(("release", "warmup"), [("", "math.ceil(0.1 * batches.steps)"), ("0.20.0", "7")])
def test_of_warmup_ratio_and_steps_the_releases_own_choice_counts(release: str, warmup: str) -> None:
    both = TRAINER.replace("output_dir", "warmup_ratio=0.1, warmup_steps=7, output_dir")
    after = port(f"{TOP}trainer = {both}\ntrainer.train()\n", **({"source_trl": release} if release else {})).after
    other = "7" if warmup != "7" else "math.ceil(0.1"
    assert warmup in after and f"0.0, 2e-5, {other}" not in after and ("math.ceil" in after) is (warmup != "7")


def test_a_model_of_another_module_is_said_to_be_that_whatever_branch_adapts_it() -> None:
    text = f"""import sys
from mine import load
from peft import LoraConfig, PeftModel, get_peft_model
{TOP}base = load('Qwen/Qwen3-0.6B')
if sys.argv[1:]:
    model = PeftModel.from_pretrained(base, sys.argv[1], is_trainable=True)
else:
    model = get_peft_model(base, LoraConfig(r=8))
trainer = {TRAINER.replace("'Qwen/Qwen3-0.6B'", "model", 1)}
trainer.train()
"""
    (message,) = [message for _, message in said(port(text)) if message.startswith("model")]
    assert message == "model: where this model comes from is not a from_pretrained call in this file."


@pytest.mark.parametrize("name", ["model", "policy", "peft_model"])
def test_a_model_that_nothing_makes_is_no_hub_id(name: str) -> None:
    trainer = TRAINER.replace("'Qwen/Qwen3-0.6B'", name, 1)
    ported = port(f"{TOP}exec(open('load.txt').read())\ntrainer = {trainer}\ntrainer.train()\n")

    message = f"{name}: nothing that is read here makes it: a cell that is no Python, or another file."
    assert [each for _, each in said(ported)] == [message]
    assert ported.status == "partial" and f"load_model({name}" not in ported.after


@pytest.mark.parametrize("name", ["MODEL", "model_name", "base_model_path"])
def test_a_name_of_a_model_that_nothing_sets_is_one(name: str) -> None:
    trainer = TRAINER.replace("'Qwen/Qwen3-0.6B'", name, 1)
    ported = port(f"{TOP}exec(open('load.txt').read())\ntrainer = {trainer}\ntrainer.train()\n")

    assert ported.status == "ported" and f"load_model({name}" in ported.after.replace("\n    ", "")


def test_a_model_of_another_file_of_the_project_is_followed_in_its_folder(tmp_path: Path) -> None:
    text = f"from mine import load\n{TOP}model = load('Qwen/Qwen3-0.6B')\n"
    text += f"trainer = {TRAINER.replace(chr(39) + 'Qwen/Qwen3-0.6B' + chr(39), 'model', 1)}\ntrainer.train()\n"
    script = write(tmp_path, text)
    assert [finding.fix for finding in port_file(script).findings if "comes from" in finding.message] == [
        "Make model with rt.load_model and the mesh."
    ]
    write(tmp_path, "def load(name):\n    return name\n", "mine.py")
    (fix,) = [finding.fix for finding in port_file(script).findings if "comes from" in finding.message]
    assert fix == "It is made in mine.py: port the project's folder, where it is followed."


def test_a_function_s_annotation_names_a_class_that_is_there() -> None:
    text = f"{TOP}from trl import DPOConfig, DPOTrainer\n\n\ndef build(rows) -> DPOTrainer:\n"
    text += (
        "    return DPOTrainer('Qwen/Qwen3-0.6B', args=DPOConfig('o'), train_dataset=rows)\n\n\nbuild(sys).train()\n"
    )
    assert "def build(rows) -> rt.PreferenceTrainer:" in port(text).after
    named = port(f"{TOP}\n\ndef build() -> SFTTrainer:\n    return {TRAINER}\n\n\nbuild().train()\n").after
    assert "def build() -> PeftTrainer:" in named and "import PeftTrainer, TrainingConfig" in named


def test_what_bitsandbytes_config_ignores_is_left_out() -> None:
    config = "BitsAndBytesConfig(load_in_8bit=True, bnb_8bit_compute_dtype='bfloat16')"
    text = f"import sys\nfrom transformers import BitsAndBytesConfig\n{TOP}q = {config} if sys.argv else None\n"
    text += f"model = AutoModelForCausalLM.from_pretrained('x/y', quantization_config=q)\ntrainer = {TRAINER}\n"
    ported = port(text.replace("SFTTrainer('Qwen/Qwen3-0.6B'", "SFTTrainer(model") + "trainer.train()\n")
    assert "bnb_8bit_compute_dtype" not in ported.after and "load_in_8bit=True)" in ported.after
    assert any("transformers ignores what it doesn't know" in message for _, message in said(ported))


def test_a_trainer_that_only_saves_its_own_way_is_ported_and_a_person_told() -> None:
    own = (
        "class Saving(SFTTrainer):\n    def save_model(self, folder):\n        self.model.save_pretrained(folder)\n\n\n"
    )
    made = TRAINER.replace("SFTTrainer(", "Saving(", 1)
    text = f"{TOP}\n\n{own}trainer = {made}\ntrainer.train()\ntrainer.save_model('x')\n"
    ported = port(text)
    assert ported.status == "partial" and "rt.save_model(model, 'x'" in ported.after
    assert any(
        "a way of saving of its own (save_model), which the port doesn't call" in text for _, text in said(ported)
    )
    assert port(text.replace("def save_model(self, folder)", "def compute_loss(self, folder)")).status == "unsupported"


@pytest.mark.parametrize("own", ["class TrainingConfig:\n    steps = 5\n", "from mine import TrainingConfig\n"])
def test_a_training_config_of_the_script_s_own_keeps_its_name(own: str) -> None:
    ported = port(f"{TOP}{own}print(TrainingConfig.steps)\ntrainer = {TRAINER}\ntrainer.train()\n")
    assert ported.status == "ported" and "print(TrainingConfig.steps)" in ported.after
    assert "import PeftTrainer, TrainingConfig as TunixTrainingConfig\n" in ported.after
    assert "    TunixTrainingConfig(\n" in ported.after


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        ("from mine import BNB", 1),
        ("from mine import bnb\nBNB = bnb(4)", 1),
        ("import sys, transformers\nBNB = transformers.BitsAndBytesConfig(load_in_8bit=bool(sys.argv))", 0),
    ],
)
def test_a_base_s_format_of_another_file_is_said(made: str, lines: int) -> None:
    model = "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', quantization_config=BNB)\n"
    trainer = TRAINER.replace("'Qwen/Qwen3-0.6B'", "model", 1)
    ported = port(f"{TOP}{made}\n{model}trainer = {trainer}\ntrainer.train()\n")
    found = [text for _, text in said(ported) if "as transformers' own object" in text]
    assert len(found) == lines


def test_a_trainer_that_a_function_chooses_is_to_be_imported_from_where_it_is() -> None:
    text = (
        "def libraries(kind):\n    from transformers import AutoModelForCausalLM, Trainer\n"
        "    return AutoModelForCausalLM, Trainer\n\n"
        "AutoModelForCausalLM, Trainer = libraries(1)\n"
        'trainer = Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"))\ntrainer.train()\n'
    )
    found = port(text)
    (said,) = (finding for finding in found.findings if finding.severity == "error")
    assert found.status == "unsupported" and found.edits == ()
    assert said.fix == "Import the class by its name: from transformers import Trainer."


def test_a_class_that_the_run_chooses_is_called_that() -> None:
    chosen = "kind = AutoModel if len(sys.argv) > 1 else AutoModelForCausalLM\nmodel = kind.from_pretrained("
    text = sft_script(imports="import sys\nfrom transformers import AutoModel")
    found = port(text.replace("model = AutoModelForCausalLM.from_pretrained(", chosen))
    assert found.status != "ported"
    other = port(text.replace("model = AutoModelForCausalLM.from_pretrained(", chosen.replace("from_pre", "pre")))
    assert not any("which class that is the run decides" in each.message for each in other.findings)
    assert "model: kind.from_pretrained loads it, and which class that is the run decides." in [
        each.message for each in found.findings
    ]

"""Trainers where real scripts make them: in functions, methods, branches, expressions, several in a file."""

from __future__ import annotations

import pytest

from .porting import HEAD, PLAIN, check_becomes, port
from .trainer_scripts import SECOND

MADE = "SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows)"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"{MADE}.train()\n", ("trainer = PeftTrainer(", "with mesh:\n    trainer.train(batches)\n")),
        (
            f"def make():\n    return {MADE}\nt = make()\nt.train()\n",
            ("    trainer.batches = batches\n    return trainer\n", "with mesh:\n    t.train(t.batches)\n"),
        ),
        (
            f"def make():\n    return {MADE}, 3\nt, n = make()\nt.train()\n",
            ("    return trainer, 3\n", "with mesh:\n    t.train(t.batches)\n"),
        ),
        (
            f"def make():\n    return {MADE}\nmake().train()\n",
            ("trainer = make()\nwith mesh:\n    trainer.train(trainer.batches)\n",),
        ),
        (
            f"def run(t):\n    t.train()\nrun({MADE})\n",
            ("    with mesh:\n        t.train(t.batches)\n", "trainer.batches = batches\nrun(trainer)\n"),
        ),
        (
            f"def run(t):\n    t.train()\ntrainer = {MADE}\nrun(t=trainer)\n",
            ("    with mesh:\n        t.train(t.batches)\n", "run(t=trainer)\n"),
        ),
        (
            f"class A:\n    def make(self):\n        self.t = {MADE}\n    def run(self):\n        self.t.train()\n",
            ("        self.t = PeftTrainer(", "self.t.batches = batches\n", "self.t.train(self.t.batches)\n"),
        ),
        (
            f"class A:\n    def make(self):\n        return {MADE}\n    def run(self):\n        t = self.make()\n"
            "        t.train()\n",
            ("        trainer.batches = batches\n        return trainer\n", "            t.train(t.batches)\n"),
        ),
        (
            f"class A:\n    def __init__(self, t):\n        self.t = t\n    def run(self):\n        self.t.train()\n"
            f"A({MADE}).run()\n",
            ("            self.t.train(self.t.batches)\n", "A(trainer).run()\n"),
        ),
        (
            f"trainer = {MADE}\nother = trainer\nother.train()\nother.save_model('z')\n",
            ("with mesh:\n    other.train(batches)\n", "rt.save_model(model, 'z', tokenizer=tokenizer)\n"),
        ),
    ],
    ids="expression returned tuple chained argument keyword attribute method handed alias".split(),
)
def test_a_trainer_is_followed(text: str, parts: tuple[str, ...]) -> None:
    after = check_becomes(f"{HEAD}{text}", *parts).after
    assert "trl" not in after


def test_two_trainers_in_turn() -> None:
    after = check_becomes(PLAIN + SECOND.replace("trainer", "other"), "    trainer.train(batches)\n").after
    assert after.count("batches = rt.SFTBatches(") == 2 and "    other.train(batches)\n" in after


def test_one_variable_for_two_trainers() -> None:
    second = SECOND.replace("trainer.train()", "trainer.train()\ntrainer.save_model()").replace("'out'", "'second'")
    after = check_becomes(PLAIN + second, "rt.save_model(model, 'second', tokenizer=tokenizer)").after
    assert after.count("    trainer.train(batches)\n") == 2


def test_branches_that_differ_in_what_they_evaluate() -> None:
    made = "trainer = " + MADE
    evaluated = made.replace("'out')", "'out', eval_strategy='steps'), eval_dataset=rows")
    text = f"{HEAD}if len(rows) > 9:\n    {evaluated}\nelse:\n    {made}\ntrainer.train()\n"
    after = check_becomes(text, "    eval_batches = None\n", "    trainer.train(batches, eval_batches)\n").after
    assert after.count("eval_batches = ") == 2


def test_branches_that_differ_in_their_adapters_save_what_there_is() -> None:
    made = "trainer = " + MADE
    lora = made.replace("train_dataset", "peft_config=LoraConfig(r=4, target_modules=['q_proj']), train_dataset")
    text = f"{HEAD}if len(rows) > 9:\n    {lora}\nelse:\n    {made}\ntrainer.train()\ntrainer.save_model('z')\n"
    check_becomes("from peft import LoraConfig\n" + text, "rt.save_model(model, 'z', tokenizer=tokenizer)\n")


def test_a_trainer_of_another_kind_stands_beside() -> None:
    other = "if len(rows) > 9:\n    d = RewardTrainer('m', args=None)\n    d.train()\n"
    found = port(PLAIN.replace("SFTConfig, ", "RewardTrainer, SFTConfig, ") + other)
    assert found.status == "partial" and "trainer.train(batches)" in found.after
    assert [finding.line for finding in found.findings if "RewardTrainer(" in finding.message] == [8]


def test_a_config_that_one_of_two_functions_can_not_see_stays_an_object() -> None:
    made = "    t = SFTTrainer('Qwen/Qwen3-0.6B', args={}, train_dataset=rows)\n    t.train()\n"
    text = f"a = SFTConfig('out')\ndef one():\n{made.format('a')}def two(b):\n{made.format('b')}one()\ntwo(a)\n"
    after = check_becomes(f"{HEAD}{text}", "rt.SFTBatches.from_args(a,", "from_args(b,").after
    assert "\na = SFTConfig('out')\n" in after


def test_annotations_say_what_there_is() -> None:
    text = PLAIN.replace("trainer = ", "def look(t: SFTTrainer) -> SFTTrainer:\n    return t\ntrainer = ")
    check_becomes(text, "def look(t: PeftTrainer) -> PeftTrainer:\n", gone=("SFTTrainer",))


def test_a_trainer_for_other_files_takes_its_batches_along() -> None:
    text = f"{HEAD}def make():\n    return {MADE}\n"
    found = check_becomes(text, "\nmesh = jax.make_mesh(", "    trainer.batches = batches\n", status="partial")
    assert any("trainer.train(trainer.batches)" in finding.fix for finding in found.findings)


def test_what_stands_before_the_function_that_imports_has_its_imports() -> None:
    inner = "".join(f"        {line}\n" for line in PLAIN.partition("\n\n")[2].splitlines())
    text = "def main():\n    from datasets import load_dataset\n    from transformers import AutoModelForCausalLM\n"
    text += "    from trl import SFTConfig, SFTTrainer\n"
    text += "    model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
    text += f"    def inner():\n{inner.replace(chr(39) + 'Qwen/Qwen3-0.6B' + chr(39), 'model')}    inner()\nmain()\n"
    after = port(text).after
    assert after.index("import jax\n") < after.index("mesh = jax.make_mesh(") < after.index("def main"), after

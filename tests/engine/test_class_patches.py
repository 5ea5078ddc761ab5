"""What the script puts into a trainer's class, and names that mean one."""

import pytest

from .porting import PLAIN, port


@pytest.mark.parametrize(
    "line",
    ["SFTTrainer.compute_loss = mine", 'setattr(SFTTrainer, "compute_loss", mine)', "Trainer.compute_loss = mine"],
)
def test_a_method_that_is_put_into_the_class_is_named(line: str) -> None:
    text = "from transformers import Trainer\n" + PLAIN.replace("trainer = ", f"mine = len\n{line}\ntrainer = ", 1)
    found = port(text)
    assert found.status == "partial"
    (said,) = (finding for finding in found.findings if "a loss of its own" in finding.message)
    assert said.severity == "error" and "with_loss_fn" in said.fix
    assert f"# TODO(tpu-port {said.rule})" in found.after


def test_one_that_only_saves_is_a_warning_and_the_class_that_stays_an_error() -> None:
    found = port(PLAIN.replace("trainer = ", "SFTTrainer.save_model = len\ntrainer = ", 1))
    (said,) = (finding for finding in found.findings if "a way of saving of its own" in finding.message)
    assert said.severity == "warning"
    assert found.status == "partial" and "trl" in next(f.message for f in found.findings if f.severity == "error")


def test_an_alias_that_is_said_twice_is_the_class() -> None:
    twice = "import trl\nMine = trl.SFTTrainer\nif len(__file__) > 3:\n    Mine = trl.SFTTrainer\n"
    found = port(twice + PLAIN.replace("SFTTrainer(", "Mine("))
    assert "PeftTrainer(" in found.after
    errors = [finding.message for finding in found.findings if finding.severity == "error"]
    assert errors == ["trl is still used here, so the port needs it installed."]  # by the alias, which stays


@pytest.mark.parametrize("lines", ["a = b\nb = a\na.train()\n", "c = c.next\nc = c.next\nc.train()\n"])
def test_names_that_lead_to_themselves_end(lines: str) -> None:
    assert port(lines + PLAIN).status == "ported"

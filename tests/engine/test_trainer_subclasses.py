"""Subclasses of a trainer: one that adds nothing is its base, another is refused by what it overrides."""

from __future__ import annotations

import pytest

from .porting import PLAIN, check_becomes, port
from .trainer_scripts import SECOND

PASSED_ON = "    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n"


@pytest.mark.parametrize("body", ["    pass\n", '    """Ours."""\n', PASSED_ON])
def test_a_subclass_that_adds_nothing_is_its_base(body: str) -> None:
    text = PLAIN.replace("trainer = SFTTrainer(", f"class Mine(SFTTrainer):\n{body}\ntrainer = Mine(")
    check_becomes(text, "trainer = PeftTrainer(", gone=("Mine", "SFTTrainer"))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("compute_loss", "Mine(trl.SFTTrainer): the subclass has a loss of its own (compute_loss)."),
        ("create_optimizer", "an optimizer of its own (create_optimizer)"),
        ("my_report", "it has methods of its own (my_report())"),
    ],
)
def test_a_subclass_with_a_behaviour_of_its_own_is_refused_by_what_it_overrides(method: str, said: str) -> None:
    body = f"class Mine(SFTTrainer):\n    def {method}(self, *given):\n        return 1\n\ntrainer = Mine("
    found = port(PLAIN.replace("trainer = SFTTrainer(", body))
    assert found.status == "unsupported" and found.edits == () and said in found.findings[0].message
    beside = port(PLAIN.replace("trainer = SFTTrainer(", body) + SECOND.replace("trainer", "other"))
    assert beside.status == "partial" and any(said in finding.message for finding in beside.findings)


def test_what_a_subclass_does_with_the_gpus_checkpoints_needs_nobody() -> None:
    body = "class Mine(SFTTrainer):\n    def {}(self, folder):\n        return 1\n\ntrainer = Mine("
    found = port(PLAIN.replace("trainer = SFTTrainer(", body.format("_load_rng_state")))
    assert found.status == "ported" and "trainer = PeftTrainer(" in found.after
    assert any("(_load_rng_state), which the port doesn't call" in each.message for each in found.findings)
    assert port(PLAIN.replace("trainer = SFTTrainer(", body.format("_save"))).status == "partial"

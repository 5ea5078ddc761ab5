"""Lines that a rewrite makes too long are laid out on several."""

from __future__ import annotations

import pytest

from .porting import port, sft_script

LONG = "rows_of_the_second_language_that_nobody_has_seen"


@pytest.mark.parametrize(
    ("after", "laid_out"),
    [
        (
            f"metrics_of_the_evaluation = trainer.evaluate({LONG}, metric_key_prefix='(x')",
            "metrics_of_the_evaluation = rt.evaluate(\n"
            f"    trainer, batches.evaluation({LONG}, batch_size=8), metric_key_prefix='(x'\n)\n",
        ),
        (
            f"if {LONG}:\n    best_of_all = trainer.evaluate({LONG}, metric_key_prefix='a_name_that_is_rather_long')",
            f"    best_of_all = rt.evaluate(\n        trainer,\n        batches.evaluation({LONG}, batch_size=8),\n"
            "        metric_key_prefix='a_name_that_is_rather_long',\n    )\n",
        ),
        ("print(trainer.evaluate(rows))", "print(rt.evaluate(trainer, batches.evaluation(rows, batch_size=8)))\n"),
        (
            f"print(f'the loss of the rows that nobody has seen is {{trainer.evaluate({LONG})}}')",
            f"{{rt.evaluate(trainer, batches.evaluation({LONG}, batch_size=8))}}')\n",
        ),
    ],
)
def test_a_call_that_leaves_the_width_is_broken_at_its_arguments(after: str, laid_out: str) -> None:
    found = port(sft_script(f"{LONG} = rows = load_dataset('x', split='test')", after=f"trainer.train()\n{after}\n"))
    assert laid_out in found.after, found.after

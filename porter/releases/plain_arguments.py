"""TRL's trainers that took transformers' own TrainingArguments, and since when they don't.

Such a trainer has a config of its own by now, and asks its arguments for what only that has: `'TrainingArguments'
object has no attribute 'model_init_kwargs'`. SFTTrainer makes its config of them in every release. KTOTrainer,
ORPOTrainer, CPOTrainer and GRPOTrainer never took them.
"""

from __future__ import annotations

import ast

from .syntax import syntax_tree
from .versions import key

# Trainer → the first release that doesn't take them.
UNTIL = {"DPOTrainer": "0.9.2", "RewardTrainer": "0.13.0"}
# Trainers that had samples of their own by the name of `get_batch_samples`, until which release of TRL, and the first
# transformers that they can't train with: its Trainer calls a method of that name for the batches of a step.
CLASHES = ("DPOTrainer", "KTOTrainer", "BCOTrainer", "CPOTrainer", "ORPOTrainer")
CLASH_ENDS, CLASH_STARTS = "0.12.0", "4.46.1"
PLAIN = "TrainingArguments"


def plain_arguments(text: str) -> dict[str, str]:
    """The trainers that a module gives plain TrainingArguments, each with its release of `UNTIL`.

    Whether they are made, parsed or handed in: it names TRL's trainer and these arguments, and nowhere the trainer's
    own config.
    """
    of_trl, named = _names(text)
    return {
        trainer: release
        for trainer, release in UNTIL.items()
        if {trainer, PLAIN} <= named and trainer in of_trl and trainer.replace("Trainer", "Config") not in named
    }


def _names(text: str) -> tuple[set[str], set[str]]:
    """What a module takes of TRL, and all names in it but those that it only imports."""
    of_trl: set[str] = set()
    named: set[str] = set()
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError):
        return of_trl, named
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            of_trl |= names if (node.module or "").partition(".")[0] == "trl" else set()
            named |= {name for name in names if name.endswith("Config")}
        elif isinstance(node, ast.Name):
            named.add(node.id)
        elif isinstance(node, ast.Attribute):
            named.add(node.attr)
            of_trl |= {node.attr} if isinstance(node.value, ast.Name) and node.value.id == "trl" else set()
    return of_trl, named


def clashes(text: str, trl: str = "") -> str | None:
    """The first release of transformers with which a trainer of a module can't train; None where each can.

    `trl`: the release that is known by itself. Where none is, plain arguments tell one that DPOTrainer is of.
    """
    if trl and key(trl) >= key(CLASH_ENDS):
        return None
    of_trl, named = _names(text)
    old = [*CLASHES] if trl else [trainer for trainer in plain_arguments(text) if trainer in CLASHES]
    return CLASH_STARTS if any(trainer in of_trl and trainer in named for trainer in old) else None

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
# Trainer → the first transformers that those releases of it can't train with: its Trainer calls what DPOTrainer had by
# the name of `get_batch_samples`, for samples of its own.
CLASHES = {"DPOTrainer": "4.46.1"}
PLAIN = "TrainingArguments"


def plain_arguments(text: str) -> dict[str, str]:
    """The trainers that a module gives plain TrainingArguments, each with its release of `UNTIL`.

    Whether they are made, parsed or handed in: it names TRL's trainer and these arguments, and nowhere the trainer's
    own config.
    """
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError):
        return {}
    of_trl: set[str] = set()
    named: set[str] = set()
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
    return {
        trainer: release
        for trainer, release in UNTIL.items()
        if {trainer, PLAIN} <= named and trainer in of_trl and trainer.replace("Trainer", "Config") not in named
    }


def clashes(text: str) -> str | None:
    """The first release of transformers with which a trainer that a module gives plain arguments can't train."""
    found = [CLASHES[trainer] for trainer in plain_arguments(text) if trainer in CLASHES]
    return min(found, key=key, default=None)

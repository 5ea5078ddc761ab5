"""A small port, made by hand, that shows every part of the report."""

from __future__ import annotations

from pathlib import Path

from porter.port import Port
from porter.recipe import Finding, Origin, Place, Receipt, Recipe, Value
from porter.text.edit import Edit

BEFORE = '''"""Fine-tune."""
import torch
from trl import SFTConfig, SFTTrainer

data = load()


def clean(row):
    return row


args = SFTConfig(
    learning_rate=1e-4,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=8,
    torch_compile=True,
)
SFTTrainer("m", args).train()
'''
IMPORTS = ("import torch\nfrom trl import SFTConfig, SFTTrainer\n", "import optax\n")
TRAINER = ('SFTTrainer("m", args).train()', "trainer.train(batches)")
REGEX = r"^(?!.*vision).*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$"


def edit(before: str, after: str, rule: str, reason: str) -> Edit:
    start = BEFORE.index(before)
    return Edit(start, start + len(before), after, rule, reason, BEFORE[:start].count("\n") + 1, 1)


def value(code: str, line: int) -> Value:
    return Value("literal", code, Origin("train.py", line, 5, "TP101"))


def port(path: Path | str = "train.py", **changes: object) -> Port:
    """One trainer, four keywords of every fate, one finding, two edits."""
    recipe = Recipe(
        source=str(path),
        trainer="trl.SFTTrainer",
        target="tunix.PeftTrainer",
        versions={"trl": "1.16.0 (newest table)"},
        fields=(
            Receipt(
                "learning_rate",
                "1e-4",
                "exact",
                "learning rate of the optax optimizer",
                "",
                "TP101",
                12,
                5,
                (Place(20, "schedule = optax.constant_schedule(1e-4)  # the source's"),),
            ),
            Receipt(
                "per_device_train_batch_size",
                "2",
                "changed",
                "SFTBatches(batch_size=8)",
                "2 a GPU on 4 GPUs",
                "TP101",
                13,
                5,
                (
                    Place(8, "args = SFTConfig(per_device_train_batch_size=2)"),
                    Place(14, "rt.SFTBatches.from_args(args)"),
                ),
            ),
            Receipt(
                "effective batch",
                "2 a GPU x 8 accumulated x 4 processes = 64 rows a step",
                "exact",
                "8 micro-batches of 8 rows on fsdp=8",
                "the same rows train",
                "TP102",
                13,
                5,
                (Place(14, "rt.SFTBatches.from_args(args)"),),
            ),
            Receipt("torch_compile", "True", "dropped", "", "jax compiles every step anyway", "TP101", 15, 5),
            Receipt("target_modules", repr(REGEX), "manual", "", "a person has to look at it", "TP120", 16, 5),
        ),
        findings=(Finding("TP120", "warning", "matches vision layers", "name the layers", 16, 5),),
    )
    edits = (
        edit(*IMPORTS, "TP001", "imports that the port needs"),
        edit(*TRAINER, "TP130", "PeftTrainer takes batches"),
    )
    after = BEFORE.replace(*IMPORTS).replace(*TRAINER)
    made = {"before": BEFORE, "after": after, "status": "partial", "recipe": recipe, "edits": edits, **changes}
    return Port(path=str(path), **made)  # type: ignore[arg-type]

"""A name that new code needs before the script imports it, as an earlier cell of a notebook does."""

from __future__ import annotations

import ast

import pytest

from .porting import port

SCRIPT = """\
from unsloth import FastLanguageModel
from datasets import load_dataset

{between}model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
from transformers import TrainingArguments
from trl import SFTTrainer

rows = load_dataset("some/rows", split="train")
args = TrainingArguments("out")
trainer = SFTTrainer(model=model, tokenizer=tokenizer, train_dataset=rows, args=args)
trainer.train()
{behind}
print(AutoTokenizer)
"""
IMPORT = "from transformers import AutoTokenizer\n"


@pytest.mark.parametrize("behind", [IMPORT, "from transformers import (\n    AutoModel,\n    AutoTokenizer,\n)\n"])
def test_an_import_behind_the_use_is_too_late(behind: str) -> None:
    tree = ast.parse(port(SCRIPT.format(between="", behind=behind)).after)
    uses = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "AutoTokenizer"]
    imports = [
        node.lineno
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and any(alias.name == "AutoTokenizer" for alias in node.names)
    ]
    assert min(imports) < min(uses)


def test_an_import_in_front_of_the_use_is_enough() -> None:
    after = port(SCRIPT.format(between=IMPORT, behind="")).after
    assert after.count("import AutoTokenizer") == 1


SEEDED = """\
import numpy as np
from transformers import set_seed

{seed}

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

rows = load_dataset("x", split="train").shuffle()
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("seed", "before"),
    [
        ("np.random.seed(0)", True),
        ("set_seed(0)", True),
        ("ours.seed_everything(42)", True),
        ("random.seed(0)", False),
    ],
)
def test_jax_is_imported_before_numpy_is_seeded(seed: str, before: bool) -> None:
    """Its import draws 13 numbers from NumPy's generator, which shuffles what has no seed of its own."""
    after = port(SEEDED.format(seed=f"import ours, random, torch\n{seed}" if "np" not in seed else seed)).after
    assert (after.index("import jax\n") < after.index(seed)) is before, after


IN_FUNCTION = """def main():
{first}    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    from datasets import load_dataset
    rows = load_dataset("x", split="train")
    from trl import SFTConfig, SFTTrainer
    trainer = SFTTrainer(model=model, args=SFTConfig("out", max_steps=5, report_to="none"), train_dataset=rows)
    trainer.train()


main()
"""


@pytest.mark.parametrize("first", ["    from transformers import AutoModelForCausalLM\n", ""])
def test_a_function_that_imports_the_trainer_behind_its_model(first: str) -> None:
    """A name that a function imports further down has no value above that line."""
    head = "" if first else "from transformers import AutoModelForCausalLM\n\n\n"
    ported = port(head + IN_FUNCTION.format(first=first))
    assert ported.status == "ported"
    tree = ast.parse(ported.after)
    [main] = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    imports = [node for node in ast.walk(main) if isinstance(node, ast.Import | ast.ImportFrom)]
    bound = {alias.asname or alias.name.split(".")[0]: node.lineno for node in imports for alias in node.names}
    reads = [node for node in ast.walk(main) if isinstance(node, ast.Name) and node.id in bound]
    assert all(node.lineno > bound[node.id] for node in reads), ported.after
    top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert ("jax" in bound) is bool(first) and ("jax" in top) is not bool(first)

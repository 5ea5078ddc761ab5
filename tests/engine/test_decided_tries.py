"""`try` and `except TypeError` with what two releases take: the port does what the one of the script does."""

import pytest

from porter.engine.pipeline import port_module
from porter.port import Options
from porter.source.parsing import parse_notebook
from porter.text.edit import Edit
from tests.notebooks import notebook

from .porting import port

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer
from transformers import TrainingArguments
from trl import SFTTrainer

rows = load_dataset("x", split="train")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
arguments = TrainingArguments("out", group_by_length=True)  # gone in transformers 5.2, at the side of TRL 0.28
try:
    # the old trainer
    trainer = SFTTrainer(model, args=arguments, train_dataset=rows, max_seq_length=512, tokenizer=tokenizer)
except TypeError:
    # the other one
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    rows = rows.map(lambda row: tokenizer(row["text"]))
    trainer = Trainer(model, arguments, train_dataset=rows, data_collator=collator)
trainer.train()
"""


def test_what_the_release_refuses_is_not_tried() -> None:
    found = port(SCRIPT)
    assert found.status == "ported" and "rt.TrainerBatches" in found.after
    assert "try:" not in found.after and "except" not in found.after and "rt.SFTBatches" not in found.after
    assert "# the other one\ncollator = " in found.after
    assert [finding.severity for finding in found.findings if finding.rule == "TP008"] == ["info"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("max_seq_length=512, tokenizer=tokenizer", "processing_class=tokenizer"),  # the release takes it
        ("except TypeError:", "except TypeError as error:"),  # the handler may look at it
        ("except TypeError:", "except ImportError:"),
        ("    # the old trainer\n", "    rows = rows.select(range(9))\n"),  # what is done in front isn't undone
    ],
)
def test_others_are_tried_as_they_were(before: str, after: str) -> None:
    found = port(SCRIPT.replace(before, after, 1))
    assert "try:" in found.after and "rt.SFTBatches" in found.after


TWO_WAYS = """\
try:
    trainer = SFTTrainer(model, args=arguments, train_dataset=rows, tokenizer=tokenizer)
except TypeError:
    trainer = SFTTrainer(model, args=arguments, train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""


def test_of_two_ways_to_write_one_trainer_the_release_takes_one() -> None:
    lines = SCRIPT.split("try:")[0].replace("group_by_length=True", "max_steps=3")
    for release in ("0.11.4", "0.20.0"):
        found = port(f"# pip install trl=={release}\n{lines}{TWO_WAYS}", source_trl=release)
        assert "rt.SFTBatches" in found.after and "try:" not in found.after and "except" not in found.after
        assert found.after.count("PeftTrainer(") == 1 and found.status == "ported"
        fates = [(row.line, row.fate) for row in found.fields if row.source.startswith("SFTTrainer.")]
        kept, other = (12, 14) if release == "0.11.4" else (14, 12)
        assert {fate for line, fate in fates if line == kept} == {"exact"}, release
        assert {fate for line, fate in fates if line == other} == {"dropped"}, release


def test_what_a_way_that_is_not_taken_does_to_the_arguments_changes_none() -> None:
    lines = SCRIPT.split("try:")[0].replace("group_by_length=True", "max_steps=3")
    ways = TWO_WAYS.replace("except TypeError:\n", "except TypeError:\n    arguments.max_steps = 9\n")
    assert "max_steps=3," in port(f"{lines}{ways}", source_trl="0.11.4").after
    assert "arguments.max_steps = 9\n" in port(f"{lines}{ways}", source_trl="0.20.0").after


def test_comments_in_front_of_what_is_kept_move_out_with_it() -> None:
    above = Edit(0, 0, "# three\n        # steps\n\n        ", "TP103", "", 1, 9)
    moved = above.moved_out(4)
    assert moved is not None and moved.new == "# three\n    # steps\n\n    "
    assert above.moved_out(9) is None


@pytest.mark.parametrize(
    "change",
    [
        ("tokenizer=tokenizer)\nexcept", "**json.loads(input()))\nexcept"),
        ("except TypeError", "except Exception"),  # which may be about something else
        ("    trainer = SFTTrainer(", "    trainer = Trainer(", 2),
        ("    trainer = SFTTrainer(", "    raise SystemExit(", 2),
        ("\ntrainer.train", "\nelse:\n    print(len(rows))\ntrainer.train", 2),
        ("\ntrainer.train", "\nfinally:\n    print(len(rows))\ntrainer.train", 2),
        ("\nexcept TypeError", "\n    print(len(trainer.train_dataset))\nexcept TypeError"),
    ],
)
def test_what_may_end_otherwise_is_still_tried(change: tuple[str, ...]) -> None:
    lines = SCRIPT.split("try:")[0].replace("group_by_length=True", "max_steps=3")
    tried = TWO_WAYS
    if len(change) == 3:
        head, tail = tried.split("except", 1)
        tried = f"{head}except{tail.replace(*change[:2])}"
    else:
        tried = tried.replace(*change)
    assert tried != TWO_WAYS
    assert "except" in port(f"{lines}{tried}", source_trl="0.11.4").after


def test_unsloths_trainers_take_what_older_releases_took() -> None:
    lines = "import unsloth\n" + SCRIPT.split("try:")[0].replace("group_by_length=True", "max_steps=3")
    assert "except" in port(f"{lines}{TWO_WAYS}", source_trl="0.20.0").after


def test_a_notebook_with_lines_of_ipython_is_dated_as_its_script_is() -> None:
    document = notebook("!pip install -q trl\n", SCRIPT)
    found = port_module(parse_notebook(document.encode(), "train.ipynb"), Options())
    assert found.recipe.versions["trl"] == port(SCRIPT).recipe.versions["trl"]


TRIED = """\
from datasets import load_dataset
from transformers import TrainingArguments

try:
    from trl import SFTConfig, SFTTrainer
except ImportError:
{instead}

rows = load_dataset("x", split="train")
args = TrainingArguments("out") if SFTConfig is None else SFTConfig("out")
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows)
trainer.train()
"""
NONE = "    from trl import SFTTrainer\n\n    SFTConfig = None"


@pytest.mark.parametrize(
    ("release", "instead", "ends"),
    [
        ("0.8.0", NONE, True),  # SFTConfig is new in 0.9.2
        ("0.8.6", "    from transformers import TrainingArguments as SFTConfig\n    from trl import SFTTrainer", True),
        ("0.9.4", NONE, False),
        ("0.8.0", "    raise SystemExit('no TRL')", False),
    ],
)
def test_a_class_that_its_release_has_not_yet_is_not_there_to_import(release: str, instead: str, ends: bool) -> None:
    found = port(TRIED.format(instead=instead), source_trl=release)
    said = [each for each in found.findings if each.rule == "TP008" and "new in 0.9.2" in each.message]
    assert [(each.severity, each.line) for each in said] == [("error", 5)] * ends
    assert not ends or found.status != "ported"
    unread = TRIED.format(instead=instead).replace('if SFTConfig is None else SFTConfig("out")', "")
    assert not any(each.rule == "TP008" for each in port(unread, source_trl=release).findings)

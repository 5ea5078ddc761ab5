"""Where nothing says on which release a script ran, the report says what others that fit train otherwise."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from porter.engine.packs.habits import read_habits
from porter.errors import InputError
from porter.front.port_file import port_file
from porter.port import Options
from porter.releases.history import history
from porter.runtime.facts.field_tables import version_key
from porter.runtime.facts.releases import Release
from porter.runtime.facts.releases.habits import shuffling_of
from porter.tables import rules_folder

from .porting import PLAIN
from .test_dating_by_commits import committed

SCRIPT = """\
from datasets import load_dataset
{}from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "mistralai/Mistral-7B-v0.1", args=SFTConfig("out"{}), train_dataset=load_dataset("trl-lib/Capybara", split="train")
)
trainer.train()
"""


def said(script: Path) -> str:
    found = [each.message for each in port_file(script).findings if "some train otherwise" in each.message]
    return " ".join(found)


def test_others_that_fit_are_named(tmp_path: Path) -> None:
    told = said(committed(tmp_path, "2025-03-10", SCRIPT.format("", ", packing=True")))
    assert told.startswith(
        "Read as TRL 0.15.2, the newest release on 2025-03-10, when the script was last committed; 0.9.2 to 0.15.2 fit "
    )  # 0.16 was not out
    assert "0.9.2 to 0.14: packing fills a buffer with texts, and cuts it into rows" in told
    assert "0.9.2 to 0.11.4: learning_rate=5e-05" in told
    told = said(committed(tmp_path, "2025-03-10", SCRIPT.format("", ", learning_rate=1e-4")))
    assert told and "learning_rate" not in told and "packing" not in told


def test_the_nearest_are_told_and_no_default_that_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = committed(tmp_path, "2025-08-10", SCRIPT.format("", ", packing=True"))
    nearest, _, more = said(script).rpartition("; and ")
    assert nearest.count(": ") == 4 and more.partition(" ")[2] == "more."
    monkeypatch.setattr("porter.engine.dating.told.differences.MOST", 99)
    whole = said(script)
    assert whole.startswith(f"{nearest}; ") and whole.count(": ") == 4 + int(more.partition(" ")[0])
    assert "learning_rate=5e-05" in whole and "logging_steps" not in whole


@pytest.mark.parametrize(
    ("more", "day", "beside"),
    [
        ("", "2025-03-10", {"requirements_txt": "trl==0.15.2\ntransformers==4.49.0\n"}),
        ("from unsloth import FastLanguageModel\n", "2025-03-10", {}),
        ("", "2099-01-01", {}),  # for all that is known
    ],
)
def test_nothing_is_said_of_a_release_that_is_known(
    tmp_path: Path, more: str, day: str, beside: dict[str, str]
) -> None:
    assert not said(committed(tmp_path, day, SCRIPT.format(more, ", packing=True"), **beside))


def test_a_release_that_is_said_is_the_only_one(tmp_path: Path) -> None:
    script = committed(tmp_path, "2025-03-10", SCRIPT.format("", ", packing=True"))
    found = port_file(script, Options(source_trl="0.15.2")).findings
    assert not any("some train otherwise" in each.message for each in found)


def test_what_the_script_sets_is_no_default(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    bare = said(committed(one, "2025-07-01", SCRIPT.format("", "")))
    assert "0.9.6 to 0.18.2: nothing is autocast to bfloat16" in bare
    assert "autocast" not in said(committed(two, "2025-07-01", SCRIPT.format("", ", bf16=True")))


def test_packing_that_is_off_is_none(tmp_path: Path) -> None:
    """Prompts of rows that aren't packed are hidden from 0.17 on, of packed ones from 0.20 on."""
    on, off = tmp_path / "on", tmp_path / "off"
    on.mkdir()
    off.mkdir()
    packed = said(committed(on, "2025-05-05", SCRIPT.format("", ", packing=True")))
    alone = said(committed(off, "2025-05-05", SCRIPT.format("", ", packing=False")))
    assert "labels are hidden wherever the padding token stands" in alone and "prompts of rows" in alone
    assert "prompts of" not in packed


@pytest.mark.parametrize(
    ("model", "more", "starts", "hides"),
    [
        ("mistralai/Mistral-7B-v0.1", "", True, True),
        ("Qwen/Qwen2.5-0.5B", "", False, True),  # whose end token is the one that it pads with
        ("Qwen/Qwen2.5-0.5B-Instruct", "", False, False),
        ("Qwen/Qwen2.5-0.5B-Instruct", "tokenizer.pad_token = tokenizer.eos_token\n", False, True),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "", True, True),
    ],
)
def test_what_a_models_tokens_cannot_show_is_not_told(
    tmp_path: Path, model: str, more: str, starts: bool, hides: bool
) -> None:
    text = SCRIPT.format("", ", bf16=True").replace("mistralai/Mistral-7B-v0.1", model)
    told = said(committed(tmp_path, "2025-05-05", text.replace("\ntrainer", f"\n{more}trainer", 1)))
    assert "rows get no end token" in told
    assert ("start token" in told, "labels are hidden wherever" in told) == (starts, hides)


@pytest.mark.parametrize(
    ("returns", "more", "texts"),
    [
        ('{"text": [str(row) for row in rows["turns"]]}', ", remove_columns=rows.column_names", True),
        ('{"text": [str(row) for row in rows["turns"]]}', "", False),  # a column of messages may be left
        ('{"prompt": rows["question"], "completion": rows["answer"]}', ", remove_columns=rows.column_names", False),
        ("own(rows)", ", remove_columns=rows.column_names", False),
    ],
)
def test_nothing_of_conversations_is_told_of_rows_that_are_texts(
    tmp_path: Path, returns: str, more: str, texts: bool
) -> None:
    makes = f"def to_text(rows):\n    return {returns}\n\n\n"
    makes += (
        f'rows = load_dataset("a/b", split="train")\nrows = rows.map(lambda each: to_text(each){more}).shuffle(1)\n'
    )
    text = SCRIPT.format("", ", bf16=True").replace("\ntrainer", f"\n{makes}trainer", 1)
    text = text.replace('load_dataset("trl-lib/Capybara", split="train")', "rows")
    told = said(committed(tmp_path, "2025-05-05", text))
    assert (
        "rows get no end token" in told and ("conversations get" in told, "prompts of rows" in told) == (not texts,) * 2
    )


def test_the_model_that_a_parser_takes_by_default_is_meant(tmp_path: Path) -> None:
    asks = """\
import argparse
from transformers import AutoModelForCausalLM
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="{}")
args = parser.parse_args()
"""
    loaded = "AutoModelForCausalLM.from_pretrained(args.model)"
    for model, starts in (("Qwen/Qwen2.5-0.5B", False), ("mistralai/Mistral-7B-v0.1", True)):
        text = asks.format(model) + SCRIPT.format("", ", bf16=True").replace('"mistralai/Mistral-7B-v0.1"', loaded)
        folder = tmp_path / model.partition("/")[0]
        folder.mkdir()
        assert ("start token" in said(committed(folder, "2025-05-05", text))) is starts


TRAINER = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", torch_dtype="bfloat16")
rows = load_dataset("json", data_files="tokens.jsonl", split="train")
trainer = Trainer(model, TrainingArguments("out", gradient_accumulation_steps=4{}), train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("more", "pins", "told"),
    [
        ("", "", "4.38 to 4.45.2: a step's loss is the mean of its micro-batches' means."),
        ("", "transformers==4.49.0\n", ""),
        ("import trl\n", "", "4.38.2 to 4.45.2: a step's loss is the mean of its micro-batches' means."),
        ("import trl\n", "trl==0.15.2\n", ""),  # beside which no older one was installed on that day
    ],
)
def test_releases_of_a_trainer_of_transformers(tmp_path: Path, more: str, pins: str, told: str) -> None:
    found = said(committed(tmp_path, "2025-03-10", more + TRAINER.format(""), requirements_txt=pins))
    assert (
        found.startswith("Read as transformers 4.49.0, ") is bool(told) and found.endswith(told) and "TRL" not in found
    )
    assert bool(found) is bool(told)


@pytest.mark.parametrize(("pins", "drawn"), [("", True), ("trl==0.9.4\n", False), ("peft==0.11.1\n", False)])
def test_no_older_release_fits_than_what_was_out_with_the_pinned_ones(
    tmp_path: Path, pins: str, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are of May and June 2024, transformers 4.37 of January."""
    monkeypatch.setattr("porter.engine.dating.told.other_releases.YEAR", datetime.timedelta(days=500))
    told = said(committed(tmp_path, "2024-07-16", TRAINER.format(""), requirements_txt=pins))
    assert ("drawn from the run's own" in told) is drawn, told


@pytest.mark.parametrize("more", ["", ", lr_scheduler_type='constant'", ", max_steps=100"])
def test_a_schedule_that_counts_no_steps_is_the_same_in_all(tmp_path: Path, more: str) -> None:
    told = said(committed(tmp_path, "2025-05-24", TRAINER.format(more)))
    assert ("don't count among the steps" in told) is (not more), told


GRPO = """\
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out"{})
rows = load_dataset("some/rows", split="train")
trainer = GRPOTrainer("mistralai/Mistral-7B-v0.1", args=args, reward_funcs=[len], train_dataset=rows)
trainer.train()
"""


@pytest.mark.parametrize(
    ("more", "told", "silent"),
    [
        ("", ("temperature=0.9", "max_completion_length=256"), ("sampled by itself", "divided by")),
        (", temperature=1.0", (), ("temperature",)),
        (", temperature=0.7", ("log-probabilities aren't divided by the temperature",), ("temperature=",)),
        (", gradient_accumulation_steps=4", ("each micro-batch is sampled by itself",), ()),
        (", max_prompt_length=99", ("0.26 to 0.27.2: GRPOConfig(max_prompt_length=) does nothing",), ()),
    ],
)
def test_a_step_of_one_micro_batch_and_a_temperature_of_one_are_the_same_in_all(
    tmp_path: Path, more: str, told: tuple[str, ...], silent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("porter.engine.dating.told.differences.MOST", 20)
    monkeypatch.setattr("porter.engine.dating.told.other_releases.YEAR", datetime.timedelta(days=900))
    found = said(committed(tmp_path, "2026-10-01", GRPO.format(more)))
    assert all(text in found for text in told) and not any(text in found for text in silent), found


def test_what_a_file_with_two_trainers_leaves_open_is_told_once(tmp_path: Path) -> None:
    text = SCRIPT.format("", "")
    script = committed(tmp_path, "2025-05-05", text + text.partition("trainer = ")[1] + text.partition("trainer = ")[2])
    found = [each for each in port_file(script).findings if "some train otherwise" in each.message]
    assert len(found) == 1


@pytest.mark.parametrize("missing", ["does", "kinds", "since"])
def test_a_habit_that_says_nothing_is_an_error(tmp_path: Path, missing: str) -> None:
    habit = {"does": '"rows were shuffled"', "kinds": '["sft"]', "since": '"1.0"'}
    write = (tmp_path / "habits.toml").write_text
    write("".join(["[[habit]]\n", *(f"{name} = {value}\n" for name, value in habit.items())]))
    assert read_habits(tmp_path).each
    del habit[missing]
    write("".join(["[[habit]]\n", *(f"{name} = {value}\n" for name, value in habit.items())]))
    with pytest.raises(InputError, match=f"has a habit of {', '.join(habit)}"):
        read_habits(tmp_path)


# What the runtime asks a release where it does what a habit says, by the habit's words.
ASKED = {
    "packing fills a buffer with texts, and cuts it into rows": "packing_strategy",
    "packing joins all rows, and cuts them wherever a row is full": "packing_strategy",
    "prompts of packed rows with a completion are trained, too": "packs_masks",
    "prompts of packed rows with a completion are hidden": "packs_masks",
    "packing puts rows together by first fit, and cuts long ones off": "packing_strategy",
    "packing puts rows together by best fit, and cuts long ones off": "packing_strategy",
    "packing goes on with what is too long in another row": "packing_strategy",
    "packed documents see each other without flash attention": "joins_documents",
    "labels are hidden wherever the padding token stands, the end token where it is that": (
        "packing_strategy masks_padding_token"
    ),
    "an end token is trained where it is the padding token, too": "packing_strategy masks_padding_token",
    "rows get no end token": "packing_strategy end_token",
    "rows get an end token": "end_token",
    "prompts of rows with a completion are trained, too": "knows_completions",
    "prompts of rows with a completion are hidden": "knows_completions",
    "conversations get two start tokens of a template that writes one": "one_start_for_chats",
    "conversations get one start token": "one_start_for_chats",
    "the header of an answer is trained": "hides_generation_prompt",
    "the header of an answer is hidden with its prompt, if that is": "hides_generation_prompt",
    "the header of an answer is hidden with its prompt": "hides_generation_prompt",
    "a text column of any name gets the end token": "end_field",
    "rows without a trained token leave": "drops_untrained",
    "prompt and answer get start and end tokens, and prompts are cut first": "pairs_joined",
    "prompt and answers are tokenised apart": "pairs_apart",
    "prompt and answer are tokenised as one": "pairs_apart",
    "answers of conversations get one more end token": "ends_chat_pairs",
    "pairs are cut at their end, whatever truncation_mode says": "cuts_pairs_start",
    "long pairs lose their first columns, padding counted": "cuts_pair_columns",
    "rows whose prompt fills max_length leave": "drops_long_prompts",
    "the prompt of a long pair is cut first": "cuts_text_prompts",
    "both answers of a long pair are cut to what the longer one leaves": "cuts_by_longer_answer",
    "an answer of a long pair is cut to what its prompt leaves": "cuts_text_pairs_as_today",
    "rows are shuffled by the trainer itself": "shuffles_completions",
    "prompt and answer get start and end tokens": "completions_joined",
    "log-probabilities aren't divided by the temperature": "divides_by_temperature",
    "log-probabilities are divided by the temperature": "divides_by_temperature",
    "prompts of an epoch that fill no batch are trained": "leftovers",
    "prompts of an epoch that fill no batch are left out": "leftovers",
    "each micro-batch is sampled by itself": "dealing",
    "the micro-batches of a step are sampled together": "dealing",
    "completions are shuffled among the micro-batches of a step": "dealing",
    "the reference is the model without adapters": "policy_reference",
    "the reference has the adapters that training starts with": "policy_reference",
    "long prompts are cut where the tokenizer's truncation_side says": "cuts_prompts_as_tokenizer",
    "prompts that are text get no start token": "prompts_as_today",
    "prompts that are text get a start token": "prompts_as_today",
    "a completion ends at the tokenizer's end token alone": "ends_at_eos_token",
    "a completion ends at any end token of the checkpoint": "ends_at_eos_token",
    "a step's loss is the mean of its micro-batches' means": "counts_tokens",
    "a step's loss is the mean over all its tokens": "counts_tokens",
    "a step's gradient is the sum of its micro-batches', not their mean": "sums_gradients_of",
    "the last micro-batches of an epoch, fewer than a step has, don't count among the steps of the schedule": (
        "rounds_steps_up"
    ),
    "the last micro-batches of an epoch, fewer than a step has, count as a step of the schedule": "rounds_steps_up",
    "a gradient is divided by the accumulation twice": "divides_twice",
}
ABOUT: dict[str, tuple[Any, ...]] = {
    "packing_strategy": ("bfd",),
    "joins_documents": (None,),
    "sums_gradients_of": ("DPOTrainer", None),
}
ELSEWHERE = {  # than in Release
    "a reference that isn't given is loaded anew, not copied",
    "nothing is autocast to bfloat16",
    "products are autocast to bfloat16",
    "the order of an epoch's rows is drawn from the run's own random numbers",
    "the order of an epoch's rows is drawn from the seed",
    "a model without a dtype is loaded in float32",
    "a model without a dtype is loaded in its checkpoint's",
}


OF_PROMPTS = ("cuts_prompts_as_tokenizer", "prompts_as_today")  # are of a kind of trainer


def answers(release: Release, names: str, kind: str) -> list[Any]:
    about = ABOUT | dict.fromkeys(OF_PROMPTS, (kind,))
    return [getattr(release, name)(*about[name]) if name in about else getattr(release, name) for name in names.split()]


@pytest.mark.parametrize(
    ("library", "make"),
    [
        ("trl", lambda release: Release(release, "4.57.0")),
        ("transformers", lambda release: Release("0.19.0", release)),
    ],
)
def test_habits_change_where_the_runtime_does(library: str, make: Callable[[str], Release]) -> None:
    """At each bound of a habit the runtime does otherwise than with the release before what the habit is about."""
    releases = history().releases(library)
    habits = read_habits(rules_folder() / library).each
    assert habits
    for habit in (one for one in habits if one.does not in ELSEWHERE):
        assert habit.does in ASKED, f"say in ASKED what the runtime asks for: {habit.does}"
        for bound in filter(None, (habit.since, habit.until)):
            first = sum(version_key(release) < version_key(bound) for release in releases)
            for kind in habit.kinds:
                before, after = (answers(make(releases[at]), ASKED[habit.does], kind) for at in (first - 1, first))
                assert before != after, f"{library} {kind} {bound}: {habit.does}"


@pytest.mark.parametrize("library", ["trl", "transformers"])
def test_habits_are_about_places_that_tables_fill(library: str) -> None:
    tables = [tomllib.loads(file.read_text()) for file in rules_folder().glob("*/tables/*.toml")]
    places = {field.get("place") for table in tables for field in table.get("fields", {}).values()}
    habits = read_habits(rules_folder() / library)
    named = {place for habit in habits.each for place in (*habit.where, *habit.without, *habit.unless)}
    assert named | {*habits.told} <= places


def test_the_order_of_rows_changed_where_habits_say() -> None:
    assert (shuffling_of("4.37.2", "0.26.0"), shuffling_of("4.38.0", "0.27.0")) == ("drawn", "seeded")


def test_why_it_is_read_so_is_said_whole(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format("", ", max_seq_length=512, packing=True"))
    assert "SFTConfig(max_seq_length=) (trl 0.20 has none); 0." in said(script)


def test_releases_that_a_pin_of_the_project_shuts_out_do_not_fit(tmp_path: Path) -> None:
    """pip installs no TRL 1 beside `huggingface_hub==0.23.4`, through the transformers that it needs."""
    (tmp_path / "train.py").write_text(PLAIN)
    (tmp_path / "requirements.txt").write_text("trl>=0.9.6\ntransformers>=4.41.0\nhuggingface_hub==0.23.4\n")
    said = [each.message for each in port_file(tmp_path / "train.py").findings if "fit as well" in each.message]
    assert len(said) == 1 and "to 0.17 fit as well" in said[0] and "to 4.46.3 fit as well" not in said[0], said


COUNTED = """\
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
rows = load_dataset("trl-lib/Capybara", split="train")
rows = rows.filter(lambda row: len(tokenizer.apply_chat_template(row["messages"], tokenize=True)) <= 1024)

trainer = """


def test_rows_that_are_kept_by_the_number_of_their_tokens_are_kept_otherwise_by_5(tmp_path: Path) -> None:
    """Nothing says which transformers it was: under 5 `len(...)` is 2, and every row stays."""
    text = SCRIPT.format("from transformers import AutoTokenizer\n", ", model_init_kwargs={'dtype': 'bfloat16'}")
    text = text.replace("trainer = ", COUNTED, 1)
    told = said(committed(tmp_path, "2026-02-15", text, requirements_txt="trl==0.27.2\n"))
    assert "5.0 to 5.1: len(...) of apply_chat_template's answer counts the keys of a dictionary, 2" in told, told

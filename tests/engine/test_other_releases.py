"""Where nothing says on which release a script ran, the report says what others that fit train otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from porter.engine.packs.habits import read_habits
from porter.errors import InputError
from porter.front.port_file import port_file
from porter.releases.history import history
from porter.runtime.facts.field_tables import version_key
from porter.runtime.facts.releases import Release
from porter.runtime.facts.releases.habits import shuffling_of
from porter.tables import rules_folder

from .test_dating_by_commits import committed

SCRIPT = """\
from datasets import load_dataset
{}from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "Qwen/Qwen2.5-0.5B", args=SFTConfig("out"{}), train_dataset=load_dataset("trl-lib/Capybara", split="train")
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


def facts_of(make: Callable[[str], Release], release: str) -> list[Any]:
    """All that the runtime does by that release."""
    one = make(release)
    names = [name for name in dir(Release) if isinstance(getattr(Release, name), property)]
    families = [one.counts_tokens_of("mistral"), one.sums_gradients_of("DPOTrainer", None)]
    packing = [one.packing_strategy(asked) for asked in ("bfd", "ffd")]
    prompts = [one.prompts_as_today("grpo"), one.cuts_prompts_as_tokenizer("grpo")]
    return [*(getattr(one, name) for name in names), *families, *packing, *prompts]


def changes(library: str, make: Callable[[str], Release], bound: str) -> bool:
    """Whether the runtime does something else with a release than with the one before."""
    releases = history().releases(library)
    before = [release for release in releases if version_key(release) < version_key(bound)]
    return facts_of(make, before[-1]) != facts_of(make, releases[len(before)])


@pytest.mark.parametrize(
    ("library", "make", "others"),
    [
        ("trl", lambda release: Release(release, "4.57.0"), {"0.29"}),
        ("transformers", lambda release: Release("0.19.0", release), {"4.38", "5.0"}),
    ],
)
def test_habits_change_where_the_runtime_does(library: str, make: Callable[[str], Release], others: set[str]) -> None:
    """`others` do so elsewhere: the reference's weights, the rows' order, the type of what is loaded."""
    for habit in read_habits(rules_folder() / library).each:
        for bound in (habit.since, habit.until):
            assert not bound or bound in others or changes(library, make, bound), f"{library} {bound}: {habit.does}"


def test_the_order_of_rows_changed_where_habits_say() -> None:
    assert (shuffling_of("4.37.2", "0.26.0"), shuffling_of("4.38.0", "0.27.0")) == ("drawn", "seeded")


def test_why_it_is_read_so_is_said_whole(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format("", ", max_seq_length=512, packing=True"))
    assert "SFTConfig(max_seq_length=) (trl 0.20 has none); 0." in said(script)

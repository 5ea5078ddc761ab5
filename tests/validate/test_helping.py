"""What would help, from a script's own last words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.validate.helping import cause_of_crash, crash_of, help_for, is_environment, last_error
from porter.validate.made_up_again import IN_VAIN, repaired
from porter.validate.observing.settings import Settings
from porter.validate.running.processes import RunFailed
from porter.validate.stand_ins.data.repair import REPAIR

TRACEBACK = """Traceback (most recent call last):
  File "/home/me/train.py", line 12, in <module>
    main()
  File "/home/me/train.py", line 8, in main
    rows = prepare(data)
  File "/site/flash_attn/rows.py", line 3, in prepare
    return data[name]
{0}"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("ModuleNotFoundError: No module named 'nltk'", ("install nltk", "--source-python")),
        ("ModuleNotFoundError: No module named 'utils.prompter'", ("utils.prompter is a module of the project",)),
        ("ValueError: generation_batch_size (4) must be divisible by num_generations (8).", ("--launch-config",)),
        ("ValueError: DeepSpeed's config contradicts the arguments: x=1: y is 8", ("ends so on a GPU",)),
        ("ModuleNotFoundError: No module named 'flash_attn'", ("flash_attn needs a GPU",)),
        ("TypeError: Too few arguments for typing.Dict; actual 1, expected 2", ("no Python takes this Dict",)),
        ("ValueError: The features can't be aligned because the key text of features", ("hold text as other types",)),
        ("NameError: name 'rows' is not defined", ("nothing makes rows in the source",)),
        ("KeyError: 'HF_TOKEN'", ("environment that isn't set: HF_TOKEN=",)),
        ("ModuleNotFoundError: No module named 'trl.commands'", ("another release", "--source-python")),
        (
            "ImportError: cannot import name 'prepare_model_for_int8_training' from 'peft' (/site/peft/__init__.py)",
            ("prepare_model_for_int8_training", "--source-python"),
        ),
        (
            "TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'max_seq_length'",
            ("another release", "--source-python"),
        ),
        ("AttributeError: module 'transformers' has no attribute 'AdamW'", ("AdamW", "--source-python")),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/train.json'", ("--file data/train.json=FILE",)),
        ("FileNotFoundError: Unable to find '/home/me/rows.jsonl'", ("--file /home/me/rows.jsonl=FILE",)),
        ("KeyError: 'instruction'", ("the rows lack instruction", "--data")),
        ("huggingface_hub.errors.GatedRepoError: 403 Client Error", ("hf auth login", "--model")),
        ("EOFError: EOF when reading a line", ("asks for input",)),
        ("AssertionError: Torch not compiled with CUDA enabled", ("GPU",)),
        ("ValueError: no model at 'me/private', and no known family of that name: give a small one", ("--family",)),
        ("OSError: [Errno 28] No space left on device", ("TMPDIR",)),
        ("OSError: [Errno 98] Address already in use", ("port that is taken",)),
        ("train.py: error: the following arguments are required: --base_model", ("after --: --base_model",)),
        ("SyntaxError: invalid syntax", ("this Python",)),
        ("TypeError: '<=' not supported between instances of 'float' and 'str'", ("learning rate", "2.0e-4")),
        (
            "ValueError: Unable to create tensor, you should probably activate truncation and/or padding to have "
            "batched tensors with the same length. Perhaps your features (`text` in this case) have excessive nesting",
            ("on a GPU, too", "remove_unused_columns=False leaves text"),
        ),
        (
            "ValueError: You should supply an encoding or a list of encodings to this method that includes input_ids, "
            "but you provided ['text', 'language']",
            ("['text', 'language'], have no tokens", "on a GPU, too", "--data FILE"),
        ),
        ("sqlite3.OperationalError: unable to open database file", ("database that isn't here", "--file")),
        ("ValueError: chosen should be an str but got <class 'list'>", ("on a GPU, too", "TRL 0.12")),
    ],
)
def test_the_one_thing_that_would_help(error: str, words: tuple[str, ...]) -> None:
    found = help_for(TRACEBACK.format(error), "crashed (exit status 1)")

    assert "\n" not in found
    for word in words:
        assert word in found


def test_rows_that_have_what_is_lacking_are_not_to_blame(tmp_path: Path) -> None:
    """The column was added, and the script ends as before: it looks into something else."""
    runs: list[dict[str, Any]] = []

    def run(settings: Settings) -> Any:
        runs.append(settings.columns)
        asked = tmp_path / "run"
        asked.mkdir(exist_ok=True)
        (asked / REPAIR).unlink(missing_ok=True)
        if not settings.columns:
            (asked / REPAIR).write_text(json.dumps({"column": "primer", "kind": "text", "why": "KeyError"}))
        raise RunFailed("source", "crashed (exit status 1)", "KeyError: 'primer'", folder=asked)

    with pytest.raises(RunFailed) as failed:
        repaired(run, Settings(work=str(tmp_path), steps=1), lambda line: None)
    assert runs == [{}, {"primer": "text"}]
    assert failed.value.reason.endswith(IN_VAIN.format("primer"))


def test_the_reason_of_the_end_wins() -> None:
    vain = f"crashed (exit status 1){IN_VAIN.format('primer')}"
    assert "isn't the rows that lack primer" in help_for("KeyError: 'primer'", vain)
    assert "--timeout" in help_for("KeyError: 'text'", "had not finished after 15 s (--timeout)")
    assert "out of memory" in help_for("", "crashed (exit status -9)")
    assert "trained nothing" in help_for("bye", "ended without training: no trainer was started")


def test_nothing_is_said_of_what_nobody_knows() -> None:
    assert help_for("ValueError: 7 is not prime", "crashed (exit status 1)") == ""
    assert help_for("") == ""


def test_the_error_counts_before_the_libraries_that_its_traceback_names() -> None:
    assert "GPU" not in help_for(TRACEBACK.format("KeyError: 'text'"))


def test_the_last_error_of_an_output() -> None:
    assert last_error("a\nValueError: bad\n  more of it\n") == "ValueError: bad more of it"
    assert last_error("loading\nthe end\n") == "the end"
    assert last_error("") == ""


def test_where_in_the_script_a_crash_comes_from() -> None:
    found = crash_of(TRACEBACK.format("KeyError: 'text'"), "elsewhere/train.py")

    assert (found.line, found.code, found.error) == (8, "rows = prepare(data)", "KeyError: 'text'")
    assert crash_of("Killed", "train.py").line == 0


@pytest.mark.parametrize(
    ("output", "reason", "words"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "crashed (exit status 1)", "still needs torch"),
        ("NameError: name 'collator' is not defined", "crashed (exit status 1)", "uses collator"),
        ("TypeError: f() got an unexpected keyword argument 'packing'", "crashed (exit status 1)", "gives packing"),
        ("KeyError: 'text'", "crashed (exit status 1)", "reads text"),
        ("ok", "ended without training: no trainer was started", "never reaches its trainer"),
        ("ok", "had not finished after 9 s (--timeout)", "--timeout"),
        ("ValueError: 7 is not prime", "crashed (exit status 1)", "where the source doesn't"),
    ],
)
def test_why_a_port_crashes(output: str, reason: str, words: str) -> None:
    assert words in cause_of_crash(output, reason)


def test_a_machine_without_the_ports_libraries_says_nothing_of_the_port() -> None:
    assert is_environment("ModuleNotFoundError: No module named 'tunix'", "crashed (exit status 1)")
    assert is_environment("", "crashed (exit status -9)")
    assert is_environment("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory", "crashed (exit status 1)")
    assert not is_environment("ModuleNotFoundError: No module named 'torch'", "crashed (exit status 1)")

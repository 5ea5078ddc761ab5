"""Trackers that Tunix doesn't have, and what a script calls of them."""

import re

import pytest

from porter.runtime.facts.releases.habits import names_runs

from .porting import port, sft_script


def said(report_to: str, after: str = "trainer.train()", before: str = "") -> list[tuple[str, str]]:
    text = sft_script(before, imports="import swanlab", after=after).replace(
        'report_to="none"', f"report_to={report_to}"
    )
    words = ("no such tracker", "needs the run")
    found = port(text).findings
    return [(each.severity, each.message) for each in found if any(word in each.message for word in words)]


@pytest.mark.parametrize("report_to", ['"none"', '["wandb", "tensorboard"]', "[]", "input()"])
def test_trackers_that_a_port_has_or_does_not_know_yet(report_to: str) -> None:
    assert said(report_to) == []


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize(
    ("report_to", "old", "told"),
    [
        ('"wandb" if use else None', True, True),
        ('None if use else "wandb"', True, True),
        ('"wandb" if use else "none"', True, False),
        ('"wandb" if use else None', False, False),
    ],
)
def test_none_where_it_meant_all(kept: bool, report_to: str, old: bool, told: bool) -> None:
    text = sft_script("use = len(sys.argv) > 1", imports="import sys", config=", save_safetensors=True" * old)
    if kept:
        text = text.replace("trainer = SFT", "args = parse()\ntrainer = SFT").replace("max_steps=5", "max_steps=args.n")
    found = port(text.replace('report_to="none"', f"report_to={report_to}")).findings
    assert any(each.message.startswith("report_to=None: transformers 4") for each in found) is told


@pytest.mark.parametrize(("settings", "to"), [("", "the port to none."), ("**load(), ", "and to W&B where that is")])
def test_an_object_of_arguments_makes_of_none_what_transformers_4_does(settings: str, to: str) -> None:
    text = sft_script("use = len(sys.argv) > 1", imports="import sys", config=", save_safetensors=True")
    text = text.replace("SFTConfig(", f"SFTConfig({settings}", 1)
    found = port(text.replace('report_to="none"', 'report_to="wandb" if use else None'))
    [message] = [each.message for each in found.findings if each.message.startswith("report_to=None")]
    assert to in message, message


@pytest.mark.parametrize(
    ("transformers", "report_to", "name", "given"),
    [
        ("4.51.3", '"wandb"', "", 'run_name="out"'),
        ("4.54.1", '["tensorboard", "wandb"]', "", 'run_name="out"'),
        ("4.54.1", '"wandb"', ', run_name="first"', 'run_name="first"'),
        ("4.54.1", '"tensorboard"', "", ""),
        ("4.55.4", '"wandb"', "", ""),
    ],
)
def test_a_run_without_a_name_has_that_of_its_folder(transformers: str, report_to: str, name: str, given: str) -> None:
    text = sft_script(f"# pip install transformers=={transformers}", config=name).replace("dtype=", "torch_dtype=")
    found = port(text.replace('report_to="none"', f"report_to={report_to}")).after
    assert (re.findall(r'run_name="\w+"', found) or [""]) == [given]
    assert [names_runs(release) for release in ("4.40.2", "4.41.0", None)] == [False, True, False]


def test_a_tracker_that_gets_nothing() -> None:
    assert [severity for severity, _ in said('["wandb", "mlflow", "comet_ml"]')] == ["warning", "warning"]


LOGS = "trainer.train()\nswanlab.log({'answers': 3})\nswanlab.finish()"


def test_calls_that_need_the_trainers_run() -> None:
    logs = LOGS.replace("swanlab", "trackio")
    assert said('"trackio"', logs, "import trackio")[-1] == (
        "error",
        "trackio.log(...) needs the run that the Trainer begins, which the port doesn't.",
    )
    begun = "import trackio\ntrackio.init(project='x')"
    assert [severity for severity, _ in said('"trackio"', logs, begun)] == ["warning"]
    assert said('"wandb"', LOGS) == []


@pytest.mark.parametrize("report_to", ['"swanlab"', '["swanlab", "none"]'])
def test_a_tracker_whose_callback_the_runtime_has(report_to: str) -> None:
    text = sft_script(after=LOGS, imports="import swanlab", config=', run_name="first"')
    found = port(text.replace('report_to="none"', f"report_to={report_to}"))

    assert said(report_to, LOGS) == [] and found.status == "ported"
    assert 'callbacks=[SwanLabCallback(experiment_name="first")]' in found.after.replace("\n        ", "")
    assert "from porter.runtime.swanlab_callback import SwanLabCallback" in found.after
    assert "metrics_options" not in found.after


def test_it_stands_beside_those_of_the_script_and_once() -> None:
    own = ", callbacks=[EarlyStoppingCallback(3)]"
    text = sft_script(imports="from transformers import EarlyStoppingCallback", trainer=own)
    after = port(text.replace('report_to="none"', 'report_to=["swanlab", "wandb"]')).after
    assert "callbacks=[EarlyStoppingCallback(3), SwanLabCallback()]" in after and 'metrics_options(["wandb"]' in after

    own = ", callbacks=[SwanLabCallback(project='mine')]"
    text = sft_script(imports="from transformers.integrations import SwanLabCallback", trainer=own)
    after = port(text.replace('report_to="none"', 'report_to="swanlab"')).after
    assert after.count("SwanLabCallback(") == 1


@pytest.mark.parametrize(
    ("line", "report_to", "told"),
    [
        ("os.environ['WANDB_LOG_MODEL'] = 'checkpoint'", '"wandb"', True),
        ("os.environ['WANDB_LOG_MODEL'] = input()", "input()", True),
        ("os.environ.setdefault('WANDB_LOG_MODEL', 'end')", '["tensorboard", "wandb"]', True),
        ("os.environ.update({'WANDB_WATCH': 'all', 'WANDB_PROJECT': 'x'})", '"all"', True),
        ("os.environ['WANDB_LOG_MODEL'] = 'false'", '"wandb"', False),
        ("os.environ['WANDB_LOG_MODEL'] = 'end'", '"none"', False),
        ("print(os.environ.get('WANDB_LOG_MODEL', 'no'))", '"wandb"', False),
        ("os.environ['WANDB_PROJECT'] = 'x'", '"wandb"', False),
    ],
)
def test_what_transformers_uploads_to_wandb_by_the_environment(line: str, report_to: str, told: bool) -> None:
    found = port(sft_script(line, imports="import os").replace('report_to="none"', f"report_to={report_to}"))
    said = [each for each in found.findings if "where it says so" in each.message]
    assert [each.severity for each in said] == (["warning"] if told else [])
    assert not told or said[0].line == found.before.splitlines().index(line) + 1


@pytest.mark.parametrize(
    ("report_to", "named"),
    [('"wandb"', "W&B's"), ('["swanlab", "tensorboard"]', "SwanLab's"), ('"tensorboard"', ""), ('"none"', "")],
)
def test_a_run_without_a_configuration_is_said(report_to: str, named: str) -> None:
    """transformers' callbacks give it the arguments and the model's config."""
    found = port(sft_script().replace('report_to="none"', f"report_to={report_to}")).findings
    said = [each.message for each in found if "adds to its configuration" in each.message]
    assert [message.partition(" ")[0] for message in said] == ([named] if named else [])


@pytest.mark.parametrize(("value", "told"), [("''", True), ("'true'", False), ("'false'", True)])
def test_a_variable_that_is_empty_turns_nothing_off(value: str, told: bool) -> None:
    text = sft_script(f"os.environ['WANDB_DISABLED'] = {value}", imports="import os").replace(', report_to="none"', "")
    found = port(text, source_trl="0.12.2")
    assert bool([each for each in found.findings if each.message.startswith("report_to isn't set")]) is told

"""Whether a run resumes, decided behind the trainer: said at the trainer, in Orbax's names."""

from pathlib import Path
from textwrap import indent

import pytest

from porter.front.port_file import port_file
from porter.port import Options

from .porting import port, sft_script

IMPORTS = "import os, pathlib, sys\nfrom transformers.trainer_utils import get_last_checkpoint"
LAST = 'rt.get_last_checkpoint("out")'
BOTH = "{}:\n    trainer.train(resume_from_checkpoint=True)\nelse:\n    trainer.train()"


def script(lines: str, **more: str) -> str:
    return sft_script('resume = "--resume" in sys.argv', imports=IMPORTS, after=lines, **more)


@pytest.mark.parametrize(
    ("lines", "decides"),
    [
        (BOTH.format("if resume"), "resume"),
        (BOTH.format("if get_last_checkpoint('out') is not None and resume"), None),
        (BOTH.format("if list(pathlib.Path('out').glob('checkpoint-*'))"), LAST),
        ("found = list(pathlib.Path('out').glob('checkpoint-*'))\n" + BOTH.format("if found"), LAST),
        ("try:\n    trainer.train(resume_from_checkpoint=True)\nexcept ValueError:\n    trainer.train()", LAST),
        (
            "if not resume:\n    trainer.train()\nelse:\n    trainer.train(resume_from_checkpoint=True)",
            "not (not resume)",
        ),
        ("trainer.train(resume_from_checkpoint=resume)", "resume"),
    ],
)
def test_what_decides_stands_at_the_trainer(lines: str, decides: str | None) -> None:
    ported = port(script(lines))
    assert ported.status == "ported", ported.findings
    decides = decides or "rt.get_last_checkpoint('out') is not None and resume"
    assert f'rt.resume_dir("out") if {decides} else rt.fresh_dir("out")' in " ".join(ported.after.split())
    assert "checkpoint-*" not in ported.after or "found = " in ported.after


def test_the_config_object_is_told() -> None:
    ported = port(script(BOTH.format("if resume"), config=", save_strategy=sys.argv[1]"))
    assert "training_args.resume_from_checkpoint = bool(resume)\n" in ported.after


FINDS = """def find_last(folder):
    found = [name for name in os.listdir(folder) if name.startswith("checkpoint-")]
    return os.path.join(folder, max(found, key=lambda name: int(name[11:]))) if found else None
"""
EITHER = """path = None
if asked:
    if asked == "latest":
        path = find_last({folder})
        if path is None:
            print("starting anew")
    else:
        path = asked
trainer.train(resume_from_checkpoint=path)
"""


@pytest.mark.parametrize("made", ["'out'", "sys.argv[2] if len(sys.argv) > 2 else 'out'"])
def test_the_last_one_or_one_that_is_given(made: str) -> None:
    before = f"{FINDS}asked, run = sys.argv[1], {made}"
    text = sft_script(before, imports="import os, sys", after=EITHER.format(folder="run"))
    ported = port(text.replace('output_dir="out"', "output_dir=run, seed=int(asked)"))
    assert ported.status == "ported", ported.findings
    last = "rt.get_last_checkpoint(run)"
    chosen = f'({last} if asked == "latest" else asked) if asked else None'
    assert chosen in " ".join(ported.after.split()) and f"        path = {last}\n" in ported.after
    other = port(text.replace('output_dir="out"', "output_dir=asked").replace("find_last(run)", "find_last('else')"))
    assert other.status == "partial" and "path = find_last('else')" in other.after


def test_the_folder_of_arguments_that_stay_an_object() -> None:
    made = "def made(**settings):\n    return SFTConfig(**settings)\n\n\n"
    run = "sys.argv[2] if len(sys.argv) > 2 else 'out'"
    before = f"{FINDS}{made}asked, run = sys.argv[1], {run}\nsettings = dict(output_dir=run, seed=int(asked))"
    text = sft_script(before, imports="import os, sys", after=EITHER.format(folder="run"))
    ported = port(text.replace('SFTConfig(output_dir="out", max_steps=5, report_to="none")', "made(**settings)"))
    assert ported.status == "ported", ported.findings
    chosen = '(rt.get_last_checkpoint(run) if asked == "latest" else asked) if asked else None'
    assert f"training_args.resume_from_checkpoint = {chosen}\n" in ported.after
    long = port(ported.before.replace("asked", "the_checkpoint_that_the_user_has_asked_for")).after
    assert "resume_from_checkpoint = (\n    (rt.get_last" in long and "\n    else None\n)\n" in long


def test_always_and_never() -> None:
    assert 'rt.resume_dir("out")' in port(script("trainer.train(resume_from_checkpoint=True)")).after
    assert 'rt.fresh_dir("out")' in port(script("trainer.train(resume_from_checkpoint=False)")).after


def test_a_condition_that_comes_later_is_named() -> None:
    ported = port(script("later = len(sys.argv) > 1\n" + BOTH.format("if later")))
    (said,) = (finding for finding in ported.findings if finding.severity == "error")
    assert said.rule == "TP111" and "it hangs on later" in said.message


def test_a_condition_on_checkpoints_keeps_its_sense() -> None:
    """Either branch trains the same now; the condition still reads true where it was."""
    lines = "if not list(pathlib.Path('out').glob('checkpoint-*')):\n    trainer.train()\n"
    ported = port(script(f"{lines}else:\n    trainer.train(resume_from_checkpoint=True)"))
    assert f'rt.resume_dir("out") if {LAST} else rt.fresh_dir("out")' in ported.after
    assert f"\nif not {LAST}:\n" in ported.after


def test_a_condition_on_checkpoints_among_others_is_named() -> None:
    ported = port(script(BOTH.format("if resume and list(pathlib.Path('out').glob('checkpoint-*'))")))
    (said,) = (finding for finding in ported.findings if finding.severity == "error")
    assert said.rule == "TP111" and "by their step" in said.message


FOUND = """last = None
if os.path.isdir('out'):
    found = [os.path.join('out', name) for name in os.listdir('out') if name.startswith('checkpoint-')]
    if found:
        last = max(found, key=os.path.getmtime)
"""
TRAIN = "trainer.train(resume_from_checkpoint={})"


@pytest.mark.parametrize(
    "asked", ["last", "last if last else None", "last or None", "last if last is not None else None"]
)
@pytest.mark.parametrize("first", [False, True])
def test_the_last_of_its_own_checkpoints(asked: str, first: bool) -> None:
    """By transformers' names it would never find one; looked for behind the trainer it has no name there yet."""
    train = TRAIN.format(asked)
    ported = port(sft_script(FOUND, imports=IMPORTS, after=train) if first else script(FOUND + train))
    assert ported.status == "ported", ported.findings
    assert f'rt.resume_dir("out") if {LAST} else rt.fresh_dir("out")' in " ".join(ported.after.split())
    assert [found.severity for found in ported.findings if "looks for the last one" in found.message] == ["info"]


def test_the_last_of_its_own_checkpoints_by_a_function() -> None:
    function = FOUND.replace("\n", "\n    ").replace("'out'", "folder")
    made = f"def newest(folder):\n    {function}return last\n"
    ported = port(sft_script(made, imports=IMPORTS, after=TRAIN.format("newest('out')")))
    assert f'rt.resume_dir("out") if {LAST} else' in " ".join(ported.after.split())


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        (FOUND.replace("'out'", "'elsewhere'"), "last"),
        (FOUND.replace("if found:", "if found and resume:"), "last"),
        (FOUND, "last if resume else None"),
    ],
)
def test_checkpoints_on_another_condition_are_named(found: str, asked: str) -> None:
    ported = port(script(found + TRAIN.format(asked)))
    said = [finding.message for finding in ported.findings if finding.severity == "error"]
    assert said and ("Orbax names" in said[0] or "set after the trainer" in said[0]), ported.findings


@pytest.mark.parametrize("asked", ["later if resume else None", "later[0]"])
def test_an_expression_of_what_is_set_later_is_named(asked: str) -> None:
    ported = port(script("later = sys.argv[1:]\n" + TRAIN.format(asked)))
    assert any("set after the trainer" in found.message for found in ported.findings), ported.findings


def test_a_condition_of_its_own_is_a_condition_still() -> None:
    ported = port(script(TRAIN.format("sys.argv[1] if resume else None")))
    asked = "sys.argv[1] if resume else None"
    assert f'rt.resume_dir("out", {asked}) if ({asked}) else' in " ".join(ported.after.split())


def test_a_path_is_where_the_run_goes_on() -> None:
    """The folder of a run that begins anew may have another name each time."""
    ported = port(
        script("trainer.train(resume_from_checkpoint=path)").replace("resume = ", "path = sys.argv[1]\nresume = ")
    )
    assert 'rt.resume_dir("out", path) if path else rt.fresh_dir("out")' in ported.after


@pytest.mark.parametrize(
    ("path", "refused"),
    [("out/checkpoint-1875/", True), ("checkpoint-5", True), ("out/1875", False), ("out/checkpoint-best", False)],
)
def test_torchs_checkpoint_that_a_caller_names_is_an_error(path: str, refused: bool) -> None:
    before, _, after = script("trainer.train(resume_from_checkpoint=path)").partition("resume = ")
    main = f"if __name__ == '__main__':\n    folder = '{path}'\n    main(folder)\n"
    ported = port(f"{before}def main(path):\n{indent(f'resume = {after}', '    ')}\n{main}")
    said = [one.line for one in ported.findings if "can't be read by Orbax" in one.message]
    assert len(said) == refused and ported.status == ("partial" if refused else "ported"), ported.findings


def test_torchs_checkpoint_as_the_model_is_a_warning(tmp_path: Path) -> None:
    text = sft_script().replace('"Qwen/Qwen3-0.6B"', '"out/checkpoint-500"')
    (tmp_path / "train.py").write_text(text)
    for there in (False, True):
        found = [
            one for one in port_file(tmp_path / "train.py").findings if "checkpoint of the GPU's run" in one.message
        ]
        assert [one.severity for one in found] == ([] if there else ["warning"])
        (tmp_path / "out" / "checkpoint-500").mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize(
    ("evaluates", "refused"), [('eval_strategy="steps", eval_steps=500', False), ("max_steps=5", True)]
)
def test_the_best_of_what_is_never_evaluated(evaluates: str, refused: bool) -> None:
    """transformers raises where one strategy saves and another evaluates."""
    more = f', load_best_model_at_end=True, save_strategy="steps", {evaluates}'
    script = sft_script(
        config=more.replace(", max_steps=5", ""), trainer=", eval_dataset=load_dataset('x', split='test')"
    )
    said = [found.message for found in port(script).findings if found.severity == "error"]
    assert any("load_best_model_at_end" in text for text in said) is refused, said


@pytest.mark.parametrize("named", ["", "last = get_last_checkpoint('out')\nif last:\n    print(last)\n"])
def test_transformers_own_search_is_orbaxs_at_the_trainer(named: str) -> None:
    value = "last" if named else "get_last_checkpoint('out')"
    for config in ("", ", save_strategy=sys.argv[1]"):
        ported = port(script(f"{named}trainer.train(resume_from_checkpoint={value})", config=config))
        assert ported.status == "ported", ported.findings
        assert "get_last_checkpoint" not in ported.after.replace("rt.get_last_checkpoint('out')", "")


def test_a_path_or_the_last_of_its_own_checkpoints_is_for_a_person() -> None:
    ported = port(script(f"path = sys.argv[-1]\n{FOUND}" + TRAIN.format("path or last")))
    assert [finding.rule for finding in ported.findings if finding.severity == "error"], ported.findings


def test_a_choice_among_checkpoints_is_one_operand() -> None:
    """`A if B else None` asked at the trainer: without parentheses the port didn't parse."""
    chosen = "last = get_last_checkpoint('out') if os.path.isdir('out') else None\n"
    ported = port(script(f"{chosen}trainer.train(resume_from_checkpoint=last)\n"))
    assert ported.status == "ported", ported.findings
    code = " ".join(ported.after.split())
    assert "if (rt.get_last_checkpoint('out') if os.path.isdir('out') else None) else rt.fresh_dir(" in code


def test_a_value_over_several_lines() -> None:
    ported = port(
        script("trainer.train(resume_from_checkpoint=(\n    resume\n    if len(sys.argv) > 2\n    else None\n))")
    )
    assert ported.status == "ported" and "rt.resume_dir" in ported.after


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("from transformers.trainer_utils import get_last_checkpoint\n\n\ndef last(folder):\n"
         "    return get_last_checkpoint(str(folder)) if folder.exists() else None\n", True),
        ("import os\n\n\ndef last(folder):\n"
         "    return max((n for n in os.listdir(folder) if n.startswith('checkpoint-')), default=None)\n", True),
        ("def last(folder):\n    return None\n", False),
    ],
)  # fmt: skip
def test_a_module_of_the_project_looks_for_the_last_checkpoint(tmp_path: Path, body: str, found: bool) -> None:
    (tmp_path / "finding.py").write_text(body)
    lines = 'checkpoint = finding.last("out")\ntrainer.train(resume_from_checkpoint=checkpoint)'
    text = sft_script("", imports="import finding", after=lines)
    (tmp_path / "train.py").write_text(text)
    ported = port_file(tmp_path / "train.py", Options(processes=1))
    assert (f'rt.resume_dir("out") if {LAST}' in " ".join(ported.after.split())) is found


@pytest.mark.parametrize(
    ("config", "after", "fate"),
    [
        ("", "trainer.train()", "dropped"),
        (', eval_strategy="epoch"', "trainer.train()", "exact"),
        ("", "trainer.train()\ntrainer.evaluate()", "exact"),
    ],
)
def test_data_that_is_never_evaluated_is_dropped(config: str, after: str, fate: str) -> None:
    text = sft_script("", config=config, after=after).replace("train_dataset=", "eval_dataset=rows, train_dataset=")
    assert "eval_dataset=rows" in text
    (field,) = [field for field in port(text).fields if field.source.endswith(".eval_dataset")]
    assert field.fate == fate


CHOICE = """\
if last is not None:
    checkpoint = last
elif {test}:
    checkpoint = name
else:
    checkpoint = {other}
trainer.train(resume_from_checkpoint=checkpoint)
"""


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (CHOICE.format(test="os.path.isdir(name)", other="None"), "last or (name if os.path.isdir(name) else None)"),
        (CHOICE.format(test="name", other="None"), "last or name"),
        (CHOICE.format(test="resume", other="name"), "last or name"),
        ("checkpoint = last\nif resume:\n    checkpoint = name\n" + TRAIN.format("checkpoint"),
         "name if resume else last"),
        ("checkpoint = None\nif resume:\n    if name:\n        checkpoint = name\n" + TRAIN.format("checkpoint"),
         "name if resume else None"),
    ],
)  # fmt: skip
def test_what_decides_among_checkpoints_stays_as_it_stands(lines: str, code: str) -> None:
    before = "last, name = sys.argv[1:3]\nresume = name == 'x'"
    for config in ("", ", save_strategy=sys.argv[3]"):
        ported = port(sft_script(before, imports=IMPORTS, config=config, after=lines))
        assert ported.status == "ported", ported.findings
        said = " ".join(ported.after.split())
        told = (f"_from_checkpoint = {code} ", f"_from_checkpoint = ({code}) ", f'rt.resume_dir("out", {code}) if')
        assert any(each in said for each in told)


@pytest.mark.parametrize("test", ["trainer.is_world_process_zero()", "later"])
def test_a_condition_that_is_not_known_at_the_trainer_is_named(test: str) -> None:
    lines = "for later in sys.argv:\n    pass\n" + CHOICE.format(test=test, other="None")
    ported = port(sft_script("last, name = sys.argv[1:3]", imports=IMPORTS, after=lines))
    assert any("set after the trainer" in found.message for found in ported.findings), ported.findings


ASKS = "rt.get_last_checkpoint({}) is not None"


@pytest.mark.parametrize(
    ("test", "folder"),
    [
        ("any(folder.glob('checkpoint-*'))", "folder"),
        ("len(list(folder.glob('checkpoint-*'))) > 0", "folder"),
        ("any(pathlib.Path(folder).glob('checkpoint-*'))", "pathlib.Path(folder)"),
        ("any(name.startswith('checkpoint-') for name in os.listdir(folder))", "folder"),
        (
            "any(\n    name.startswith('checkpoint-') for name in os.listdir(folder)\n"
            "    if os.path.isdir(os.path.join(folder, name))\n)",
            "folder",
        ),
        ("any(path.name.startswith('checkpoint') for path in folder.iterdir() if path.is_dir())", "folder"),
    ],
)
@pytest.mark.parametrize("saved_to", ["folder", "str(folder)"])
def test_a_question_for_checkpoints_among_others(test: str, folder: str, saved_to: str) -> None:
    """By transformers' names it would find none, and the run would never resume."""
    before = 'folder = pathlib.Path(sys.argv[1])\nresume = "--resume" in sys.argv'
    made = f"found = resume and {test}\n"
    for early in (True, False):
        lines = TRAIN.format("found")
        text = sft_script(
            before + ("\n" + made if early else ""), imports=IMPORTS, after=lines if early else made + lines
        ).replace('output_dir="out"', f"output_dir={saved_to}")
        ported = port(text)
        assert ported.status == "ported", ported.findings
        said = " ".join(ported.after.split())
        asks = f"resume and {ASKS.format(folder)}"
        decides = "found" if early else asks
        assert f"rt.resume_dir({saved_to}) if {decides} else rt.fresh_dir({saved_to})" in said
        assert f"found = {asks} " in said and "checkpoint-" not in said


def test_a_question_for_checkpoints_where_the_config_stays() -> None:
    before = 'folder = pathlib.Path(sys.argv[1])\nresume = "--resume" in sys.argv'
    lines = "found = resume and any(folder.glob('checkpoint-*'))\n" + TRAIN.format("found")
    text = sft_script(before, imports=IMPORTS, config=", save_strategy=sys.argv[2]", after=lines)
    ported = port(text.replace('output_dir="out"', "output_dir=str(folder)"))
    assert ported.status == "ported", ported.findings
    asks = f"resume and {ASKS.format('folder')}\n"
    assert f"_args.resume_from_checkpoint = {asks}" in ported.after and f"\nfound = {asks}" in ported.after


@pytest.mark.parametrize(
    "test",
    [
        "any(pathlib.Path('other').glob('checkpoint-*'))",
        "any(folder.glob('checkpoint-500'))",
        "any(name.startswith('checkpoint-') and name.endswith('00') for name in os.listdir(folder))",
        "any(folder.glob('checkpoint-*')) or resume",
    ],
)
def test_another_question_is_for_a_person(test: str) -> None:
    text = sft_script(
        'folder = pathlib.Path(sys.argv[1])\nresume = "--resume" in sys.argv',
        imports=IMPORTS,
        after=f"found = resume and ({test})\n" + TRAIN.format("found"),
    ).replace('output_dir="out"', "output_dir=folder")
    assert [found.rule for found in port(text).findings if found.severity == "error"]


@pytest.mark.parametrize(
    ("given", "train", "line"),
    [
        ("'out/last'", "trainer.train()", True),
        ("sys.argv[2]", "trainer.train()", True),
        ("None", "trainer.train()", False),
        ("'out/last'", "trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)", False),
    ],
)
def test_a_kept_config_resumes_nothing_that_train_is_not_given(given: str, train: str, line: bool) -> None:
    source = "import sys\nfrom trl import SFTConfig, SFTTrainer\n\n"
    source += f"args = SFTConfig('out', resume_from_checkpoint={given})\nargs.max_steps = int(sys.argv[1])\n"
    source += f"trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=rows)\n{train}\n"
    found = port(source)
    assert ("\nargs.resume_from_checkpoint = None  # as train() is given nothing\n" in found.after) is line
    [row] = [row for row in found.fields if row.source == "SFTConfig.resume_from_checkpoint"]
    assert (row.fate == "dropped" and "the Trainer doesn't read it" in row.reason) is line

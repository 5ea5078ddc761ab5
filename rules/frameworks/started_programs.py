"""Programs that train on a GPU and that the script starts: `llamafactory-cli train`, `accelerate launch`, `torchrun`.

What it does: names each that a command of the script starts (`subprocess.run`, `os.system`, `runpy`, a notebook's `!`
and `%run` lines and its `%%bash` cells), also `python -m` of such a library, `python train_x.py` and `bash train.sh`.
An error where the script does so unless its user says another, by the defaults of its arguments, a warning elsewhere.
A file that trains nothing itself is `unsupported` then. A script of the project is told by what it trains, one that
isn't there by its name.
Why: the port starts the same program, which trains with torch on a GPU, or on a TPU machine's CPU, and nothing of that
run is ported.
Example: `subprocess.run(["llamafactory-cli", "train", "sft.yaml"])`
Use instead: what that program trains as a script of TRL or transformers, ported, and `python` of its port here
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from porter.packs.api import Phase, Porting, Severity, step
from porter.packs.script import (
    STARTED,
    Module,
    Started,
    is_dead,
    named_file,
    named_module,
    origins,
    trains_on_gpu,
    usual_way,
)
from porter.packs.training import facts_of

from ._commands import UNKNOWN, commands_of, texts_of_loop, word_of, words_of

ID = "TP009"
# Programs that train, and which of their commands do; all of them where none is named.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "accelerate": ("launch",),
    "autotrain": (),
    "axolotl": ("train",),
    "deepspeed": (),
    "litgpt": ("finetune", "finetune_lora", "finetune_qlora", "finetune_full", "pretrain"),
    "llamafactory-cli": ("train",),
    "lmf": ("train",),
    "swift": ("sft", "pt", "rlhf"),
    "torchrun": (),
    "trl": ("sft", "dpo", "grpo", "kto", "reward", "rloo"),
    "tune": ("run",),
    "xtuner": ("train",),
}
MODULES = re.compile(
    r"torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch|deepspeed(?:\.launcher\.\w+)?|axolotl\.cli\.train"
    r"|llamafactory(?:\.cli|\.train)?[\w.]*|swift\.cli\.(?:sft|pt|rlhf)|verl\.trainer\.\w+|openrlhf\.cli\.train_\w+"
    r"|trl\.scripts\.\w+|fastchat\.train\.\w+|xtuner\.tools\.train"
)
# A script's name that says that it trains a model, and what such names say beside it, or that it is a port.
TRAINS = re.compile(r"(?:^|[_\-])(?:pre_?)?(?:train|fine_?tun|sft|dpo|grpo|ppo|rlhf|qlora|lora)", re.IGNORECASE)
BESIDE = re.compile(r"token|test|eval|plot|data|prepare|infer|download|merge|export|_tunix$", re.IGNORECASE)
EVALUATES = frozenset({"--tasks", "--allow_code_execution"})  # options of what measures models
IN_FRONT = frozenset({"env", "nohup", "sudo", "time", "exec", "uv", "poetry", "pipenv", "run", "nice", "!"})
PYTHON = re.compile(r"python[\d.]*")
SHELLS = frozenset({"bash", "sh", "zsh", "source", "."})
ASSIGNED = re.compile(r"\w+=\S*")
SHELL_LINE = re.compile(r"(?m)^(?P<indent>[ \t]*)(?:!|%(?P<run>run|sx|system)[ \t])(?P<command>(?:\\\r?\n|[^\r\n])+)")
SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script|!|system|sx)\b[^\n]*\n")


class Program(NamedTuple):
    """How a program is called, and the file of the project that it runs."""

    name: str
    file: str = ""


@step(Phase.FIND, fills=(STARTED,))
def find_started_programs(porting: Porting) -> None:
    """Each program that trains and that a command of the script starts."""
    module = porting.module
    if found := [*_in_calls(module), *_in_notebook(module)]:
        module.memory[STARTED] = found


@step(Phase.NAME)
def name_started_programs(porting: Porting) -> None:
    """A finding for each that the port still starts."""
    for each in porting.module.memory.get(STARTED, ()):
        if porting.covered(each.start):
            continue
        message = (
            f"{each.program}: another program, which trains with torch on a GPU and which the port starts as it is"
        )
        if each.comes is True:
            message += "; the script does so unless its user says another"
        severity: Severity = "error" if each.comes is True else "warning"
        porting.find(ID, severity, f"{message}.", each.fix, each.line, each.column)


def _in_calls(module: Module) -> Iterator[Started]:
    starts = facts_of(module).starts
    for call in module.calls:
        name = module.qualified(call.func) or module.code(call.func).replace("()", "")
        if name not in starts or is_dead(module, call):
            continue
        if (program := next(_started(module, call, name), None)) is not None:
            place = module.location(call)
            yield Started(ID, program.name, program.file, usual_way(module, call), module.span(call)[0], *place)


def _in_notebook(module: Module) -> Iterator[Started]:
    """What lines and cells of the shell start."""
    if module.notebook is None:
        return
    for line in SHELL_LINE.finditer(module.text):
        command = f"python {line['command']}" if line["run"] == "run" else line["command"]
        program = next(_programs(module, [command]), None)
        if program is not None:
            start, comes = line.start("command"), True if not line["indent"] else None
            yield Started(ID, program.name, program.file, comes, start, *module.line_column(start))
    for number, source in module.notebook.others:
        cell = SHELL_CELL.match(source)
        for program in _programs(module, [source[cell.end() :]]) if cell is not None else ():
            yield Started(ID, f"Cell {number}, {program.name}", program.file, True, -1, 1, 1)


def _started(module: Module, call: cst.Call, name: str) -> Iterator[Program]:
    """The programs that train among what a call may start."""
    given = [argument.value for argument in call.args if argument.keyword is None]
    given += [argument.value for argument in call.args if argument.keyword and argument.keyword.value == "args"]
    if not given:
        return
    if name.startswith("runpy."):
        words = ["python", *(["-m"] if name.endswith("module") else []), word_of(module, given[0])]
        yield from _programs(module, words)
        return
    several = [word_of(module, value) for value in given]  # os.execlp("torchrun", "torchrun", ...)
    executed = given[1:2] if name.startswith("os.") else []
    for value in (each for start in (given[0], *executed) for each in origins(module, start)):
        yield from _programs(module, words_of(module, value))
        parts = [part.value for part in value.elements] if isinstance(value, cst.List) else []
        for looped in parts:  # for script in ["sft.py", "dpo.py"]: subprocess.run(["python", script])
            for text in texts_of_loop(module, looped):
                yield from _programs(module, [text if part is looped else word_of(module, part) for part in parts])
    yield from _programs(module, several)


def _programs(module: Module, words: list[str]) -> Iterator[Program]:
    for command in commands_of(words):
        if (program := program_of(module, command)) is not None:
            yield program


def program_of(module: Module, words: list[str], within: str = "") -> Program | None:
    """The program that a command's words start, where it trains on GPUs; `within` a script of the shell."""
    at = 0
    while at < len(words) and (words[at] in IN_FRONT or ASSIGNED.fullmatch(words[at])):
        at += 1
    name, rest = (words[at].rpartition("/")[2] if at < len(words) else ""), words[at + 1 :]
    if PYTHON.fullmatch(name):
        if "-m" in rest[:2]:
            return _of_module(module, (rest[rest.index("-m") + 1 :] or [""])[0])
        script = next((word for word in rest if not word.startswith("-")), "")
        return _of_script(module, script, "python ") if script.endswith(".py") else None
    if name in SHELLS or name.endswith(".sh"):
        script = words[at] if name.endswith(".sh") else next((word for word in rest if not word.startswith("-")), "")
        return _of_shell(module, script) if not within else None
    if name not in PROGRAMS:
        return None
    command = next((word for word in rest if not word.startswith("-")), "")
    if PROGRAMS[name] and command not in (*PROGRAMS[name], UNKNOWN):
        return None
    shown = f"{name} {command}" if PROGRAMS[name] and command != UNKNOWN else name
    script = next((word for word in rest if word.endswith(".py")), "")
    if not script:
        return Program(shown)
    if EVALUATES & {*rest}:
        return None
    return _of_script(module, script, f"{shown} ... ", launched=True)


def _of_script(module: Module, script: str, by: str, *, launched: bool = False) -> Program | None:
    script = script.removeprefix(f"{UNKNOWN}/")
    shown = f"{by}{script}"
    stem = script.rpartition("/")[2].removesuffix(".py")
    by_name = TRAINS.search(stem) is not None and BESIDE.search(stem) is None
    found = named_file(module.path, script)
    if found is None:
        return Program(shown) if launched or by_name else None
    trains = trains_on_gpu(module, found.text)
    if trains is None:
        trains = by_name or (launched and BESIDE.search(stem) is None)
    return Program(shown, found.path) if trains else None


def _of_module(module: Module, name: str) -> Program | None:
    if MODULES.fullmatch(name):
        return Program(f"python -m {name}")
    found = named_module(module.path, name) if name else None
    program = _of_script(module, found.path, "python ") if found is not None else None
    return Program(f"python -m {name}", program.file) if program is not None else None


def _of_shell(module: Module, script: str) -> Program | None:
    found = named_file(module.path, script.removeprefix(f"{UNKNOWN}/")) if script.endswith(".sh") else None
    if found is None:
        return None
    for words in commands_of([found.text]):
        if (program := program_of(module, words, script)) is not None:
            return Program(f"{script} with {program.name}", program.file)
    return None

"""Programs that train on a GPU and that the script starts: `llamafactory-cli train`, `accelerate launch`, `torchrun`.

What it does: names each that a command of the script starts (`subprocess.run`, `os.system`, a notebook's `!` line),
also `python -m` of such a library and `python train_x.py`; an error where the script does so unless its user says
another, by the defaults of its arguments, a warning elsewhere.
Why: the port starts the same program, which trains with torch on a GPU, or on a TPU machine's CPU, and nothing of that
run is ported.
Example: `subprocess.run(["llamafactory-cli", "train", "sft.yaml"])`
Use instead: what that program trains as a script of TRL or transformers, ported, and `python` of its port here
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, is_dead, origins, usual_way

ID = "TP009"
STARTS = frozenset(
    (
        *(f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output", "getoutput")),
        *("os.system", "os.popen", "os.execvp", "os.execv", "os.execlp", "get_ipython().system"),
        "asyncio.create_subprocess_exec",
        "asyncio.create_subprocess_shell",
    )
)
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
# A script's name that says that it trains a model, and what such names say beside it.
TRAINS = re.compile(r"(?:^|[_\-])(?:pre_?)?(?:train|fine_?tun|sft|dpo|grpo|ppo|rlhf|qlora|lora)", re.IGNORECASE)
BESIDE = re.compile(r"token|test|eval|plot|data|prepare|infer|download|merge|export", re.IGNORECASE)
IN_FRONT = frozenset({"env", "nohup", "sudo", "time", "exec", "uv", "poetry", "pipenv", "run", "nice", "!"})
PYTHON = re.compile(r"python[\d.]*")
ASSIGNED = re.compile(r"\w+=\S*")
UNKNOWN = "{}"
SHELL_LINE = re.compile(r"(?m)^(?P<indent>[ \t]*)!(?P<command>[^\r\n]+)")
FIX = "Port what it trains, and start that port here; or leave it out."


@step(Phase.NAME)
def name_started_programs(porting: Porting) -> None:
    """A finding for every command that starts such a program and stays."""
    module = porting.module
    for call in module.calls:
        if module.qualified(call.func) not in STARTS or porting.covered(module.span(call)[0]) or is_dead(module, call):
            continue
        if (program := next(_started(module, call), None)) is not None:
            _say(porting, program, usual_way(module, call), *module.location(call))
    for line in SHELL_LINE.finditer(module.text) if module.notebook is not None else ():
        program = program_of(_words(line["command"]))
        if program is not None and not porting.covered(line.start("command")):
            _say(porting, program, True if not line["indent"] else None, *module.line_column(line.start("command")))


def _say(porting: Porting, program: str, comes: bool | None, line: int, column: int) -> None:
    message = f"{program}: another program, which trains with torch on a GPU and which the port starts as it is"
    if comes is True:
        message += "; the script does so unless its user says another"
    porting.find(ID, "error" if comes is True else "warning", f"{message}.", FIX, line, column)


def _started(module: Module, call: cst.Call) -> Iterator[str]:
    """The programs that train among what a call may start."""
    given = [argument.value for argument in call.args if argument.keyword is None]
    given += [argument.value for argument in call.args if argument.keyword and argument.keyword.value == "args"]
    if not given:
        return
    several = [_word(module, value) for value in given]  # os.execlp("torchrun", "torchrun", ...)
    executed = given[1:2] if (module.qualified(call.func) or "").startswith("os.exec") else []
    for value in (each for start in (given[0], *executed) for each in origins(module, start)):
        words = _words_of(module, value)
        program = program_of(words) or (program_of(several) if len(words) == 1 else None)
        if program is not None:
            yield program


def program_of(words: list[str]) -> str | None:
    """How the program is called that a command's words start, where it trains on GPUs."""
    at = 0
    while at < len(words) and (words[at] in IN_FRONT or ASSIGNED.fullmatch(words[at])):
        at += 1
    name, rest = (words[at].rpartition("/")[2] if at < len(words) else ""), words[at + 1 :]
    if PYTHON.fullmatch(name):
        if "-m" in rest[:2]:
            started = (rest[rest.index("-m") + 1 :] or [""])[0]
            return f"python -m {started}" if MODULES.fullmatch(started) else None
        script = next((word for word in rest if not word.startswith("-")), "")
        stem = script.rpartition("/")[2].removesuffix(".py")
        trains = script.endswith(".py") and TRAINS.search(stem) and not BESIDE.search(stem)
        return f"python {script}" if trains else None
    if name not in PROGRAMS:
        return None
    command = next((word for word in rest if not word.startswith("-")), "")
    if PROGRAMS[name] and command not in (*PROGRAMS[name], UNKNOWN):
        return None
    shown = f"{name} {command}" if PROGRAMS[name] and command != UNKNOWN else name
    script = next((word for word in rest if word.endswith(".py")), "")
    return f"{shown} ... {script}" if script else shown


def _words_of(module: Module, value: cst.BaseExpression) -> list[str]:
    """The words of a command: a list of them, or a text; {} for those that only the run knows."""
    if isinstance(value, cst.List | cst.Tuple):
        return [
            UNKNOWN if isinstance(part, cst.StarredElement) else _word(module, part.value) for part in value.elements
        ]
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        return _words_of(module, value.left) or next(
            (words for each in origins(module, value.left) if (words := _words_of(module, each))), []
        )
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value == "join":
        parts = [argument.value for argument in value.args]
        return (
            next((words for each in origins(module, parts[0]) if (words := _words_of(module, each))), [])
            if parts
            else []
        )
    return _words(_text(module, value))


def _word(module: Module, value: cst.BaseExpression) -> str:
    """A word of a command, or {}."""
    if module.qualified(value) == "sys.executable":
        return "python"
    if module.code(value) == "__file__":
        return "__file__"
    found = next((text for each in origins(module, value) if (text := _text(module, each))), "")
    return found or UNKNOWN


def _text(module: Module, value: cst.BaseExpression) -> str:
    """A text, with {} for what only the run knows."""
    if isinstance(value, cst.SimpleString):
        held = value.evaluated_value
        return held if isinstance(held, str) else ""
    if isinstance(value, cst.ConcatenatedString):
        return _text(module, value.left) + _text(module, value.right)
    if isinstance(value, cst.FormattedString):
        parts = []
        for part in value.parts:
            if isinstance(part, cst.FormattedStringText):
                parts.append(part.value)
            elif isinstance(part, cst.FormattedStringExpression):
                parts.append(_word(module, part.expression))
        return "".join(parts)
    return ""


def _words(command: str) -> list[str]:
    """The words of the first command of a line that trains; all of the line where none does."""
    for part in re.split(r"&&|\|\||;|\n", command):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = part.split()
        if program_of(words) is not None:
            return words
    return command.split()

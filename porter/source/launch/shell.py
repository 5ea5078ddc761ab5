"""Shell scripts that launch training: `accelerate launch`, `torchrun`, `deepspeed`, `python`, and what they set.

Read, never run: words are split as a shell does, variables that the script itself sets are filled in, and nothing
else is evaluated. A launch whose number of processes only the shell knows says so.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import InputError
from ...files import is_file
from .deepspeed import ACCELERATE_NAMES, DEEPSPEED, TABLE
from .settings import LAUNCH, Setting

ASSIGNMENT = re.compile(
    r"^\s*(?:export\s+|declare\s+(?:-\w+\s+)?|local\s+|readonly\s+)?(?P<name>\w+)=(?P<value>.*)$", re.S
)
VARIABLE = re.compile(r"\$(?:\{(?P<long>\w+)(?::?-(?P<default>[^}]*))?\}|(?P<short>\w+))")
QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.S)
# Flags of the launchers without a value.
SWITCHES = frozenset(
    """
    --multi_gpu --cpu --use_deepspeed --use_fsdp --use_megatron_lm --tpu --debug --quiet --same_network --standalone
    --no_local_rank --no_python --use_env --module -m --force_multi --bind_cores_to_rank --enable_each_rank_log
    --dynamo_use_dynamic --enable_cpu_affinity --use_cpu --use_xpu --tpu_use_cluster --downcast_bf16
    """.split()
)
ENVIRONMENT = re.compile(r"^\w+=\S*$")
SEPARATOR = re.compile(r"(\s(?:&&|\|\||;)\s|;\s*$)")
# A script's own folder, `"$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"`, and where it goes up or down from there.
OWN_FOLDER = re.compile(
    r"""["']?\$\((?P<asked>.*\bdirname\b.*(?:\bBASH_SOURCE\b|\$0\b|\$\{0\}).*)\)(?P<below>(?:/[\w.-]+)*)["']?""", re.S
)


@dataclass(frozen=True)
class Launch:
    """One launch of a script: which script, and the settings of its launcher and of the script's own flags.

    `uncounted` says why the launch's number of processes isn't known.
    """

    script: str
    settings: tuple[Setting, ...]
    uncounted: InputError | None = None


def read_launches(text: str, path: Path) -> list[Launch]:
    """Every launch of a Python script in a shell script. InputError when there is none."""
    variables: dict[str, str] = {}
    certain: dict[str, str] = {}  # whatever the shell is given from outside
    found: list[Launch] = []
    for line, command in commands_of(text):
        assigned = ASSIGNMENT.match(command)
        if assigned is not None and (own := _own_folder(assigned["value"], path)):
            variables[assigned["name"]] = certain[assigned["name"]] = own
            continue
        if assigned is not None and len(words_of(assigned["value"])) <= 1:
            value = "".join(words_of(filled(assigned["value"], variables)))
            if "$" not in value or assigned["name"] not in variables:
                variables[assigned["name"]] = value
            certain[assigned["name"]] = "".join(words_of(filled(assigned["value"], certain, defaults=False)))
            continue
        launch = _launch(words_of(filled(command, variables)), line, path)
        if launch is not None:
            sure = _launch(words_of(filled(command, certain, defaults=False)), line, path)
            found.append(_with_doubts(launch, sure))
    if not found:
        fix = "name the script that runs accelerate, torchrun or deepspeed"
        raise InputError("launches no Python script", path, fix=fix)
    return found


def commands_of(text: str) -> Iterator[tuple[int, str]]:
    """Each command with its line: continued lines joined, quoted text over several lines kept together."""
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        first, command = index, lines[index]
        while index + 1 < len(lines) and (command.rstrip().endswith("\\") or _is_open(command)):
            index += 1
            joined = command.rstrip()
            command = f"{joined[:-1]} {lines[index]}" if joined.endswith("\\") else f"{command}\n{lines[index]}"
        index += 1
        for part in _parted(_without_comment(command)):
            yield first + 1, part


def _parted(command: str) -> Iterator[str]:
    """What `&&`, `||` and `;` part, but for those inside of `$(...)`."""
    part = ""
    for piece in SEPARATOR.split(command):
        part += piece
        if "$(" in part and part.count("(") > part.count(")"):
            continue
        if part.strip() and SEPARATOR.fullmatch(part) is None:
            yield part.strip()
        part = ""
    if part.strip():
        yield part.strip()


def _without_comment(command: str) -> str:
    masked = QUOTED.sub(lambda match: "x" * len(match[0]), command)
    comment = re.search(r"(?:^|\s)#[^\n]*", masked)
    return command[: comment.start()] if comment else command


def _is_open(command: str) -> bool:
    """Whether a quote or an array stays open at the end of a command's line."""
    if command.lstrip().startswith("#"):
        return False
    rest = QUOTED.sub("", command)
    return rest.count('"') % 2 == 1 or rest.count("'") % 2 == 1 or re.search(r"=\([^)]*$", rest) is not None


def filled(text: str, variables: dict[str, str], *, defaults: bool = True) -> str:
    """A command with its variables; of one that isn't set the default, `${GPUS:-8}`, unless that is not asked for."""

    def value(match: re.Match[str]) -> str:
        name = match["long"] or match["short"]
        return variables.get(name, match["default"] if defaults and match["default"] is not None else match[0])

    return VARIABLE.sub(value, re.sub(r"\$\{(\w+)\[[@*]\]\}", r"${\1}", text))


def _own_folder(value: str, path: Path) -> str:
    """The folder that a value names as seen from the shell script at `path`; "" where it says no such folder."""
    asked = OWN_FOLDER.fullmatch(value.strip())
    if asked is None:
        return ""
    ups = asked["asked"].count("dirname") - 1 + asked["asked"].count("/..")
    folder = path.absolute().parent.joinpath(*[".."] * ups)
    return os.path.normpath(f"{folder}{asked['below']}")


def words_of(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        return [" ".join(words_of(text[1:-1]))]  # an array
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _with_doubts(launch: Launch, sure: Launch | None) -> Launch:
    """The launch, its settings marked that are others, or none, where no default of the shell's is taken."""
    known = {(each.name, each.value) for each in sure.settings} if sure is not None else None
    settings = (
        replace(each, usual=(each.name, each.value) not in known if known is not None else each.value != 1)
        for each in launch.settings
    )
    return replace(launch, settings=tuple(settings))


def names_script(word: str, script: Path, folder: Path) -> bool:
    """Whether a word of a launch, `../sft/train.py` or `$HERE/train.py`, is that script: all that it says of the path
    is so. A path of another machine, `/app/sft/train.py`, says where the script lies under `folder`.
    """
    path = script.resolve()
    parts: list[str] = []
    for part in Path(word).parts:
        if part == ".." or "$" in part:
            parts = [] if "$" in part else parts[:-1]
        elif part not in (".", "~", "/"):
            parts.append(part)
    if not parts or parts[-1] != path.name:
        return False
    if list(path.parts[-len(parts) :]) == parts:
        return True
    elsewhere = word.startswith(("/", "~")) and not is_file(Path(word)) and path.is_relative_to(folder.resolve())
    below = path.relative_to(folder.resolve()).parts if elsewhere else ()
    return bool(below) and tuple(parts[-len(below) :]) == below


def _launch(words: list[str], line: int, path: Path) -> Launch | None:
    """The launch in a command's words, if it starts a Python script."""
    words = [part for word in words for part in (word.split() if "\n" in word else [word])]
    start, tool = _tool(words)
    if tool == "":
        return None
    flags: dict[str, str] = {}
    index = start
    while index < len(words):
        word = words[index]
        if not word.startswith("-"):
            break
        name, equals, value = word.partition("=")
        if equals:
            flags[name] = value
        elif name in SWITCHES or index + 1 >= len(words) or words[index + 1].startswith("--"):
            flags[name] = "true"
        else:
            index += 1
            flags[name] = words[index]
        index += 1
    if index >= len(words) or not re.search(r"\.py$|^[\w.]+$", words[index]):
        return None
    is_module = "-m" in flags or "--module" in flags
    script = words[index].replace(".", "/") + ".py" if is_module else words[index]
    if not script.endswith(".py"):
        return None
    processes, uncounted = None, None
    try:
        processes = _processes(tool, flags, line, path)
    except InputError as error:
        uncounted = error
    counted = [] if processes is None else [Setting("num_processes", processes, line, file=path)]
    others = (*_of_launcher(tool, flags, line, path), *_of_script(words[index + 1 :], line, path))
    return Launch(script, (*counted, *others), uncounted)


def _tool(words: list[str]) -> tuple[int, str]:
    """Where the launcher's flags begin, and which launcher it is; "" when the words start no training."""
    for index, word in enumerate(words):
        name = Path(word).name
        if name == "accelerate" and words[index + 1 : index + 2] == ["launch"]:
            return index + 2, "accelerate"
        if name in ("torchrun", "deepspeed"):
            return index + 1, name
        if re.fullmatch(r"python[\d.]*", name):
            after = words[index + 1 : index + 3]
            if after[:1] == ["-m"] and len(after) == 2:
                inner = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun"}
                inner["accelerate.commands.launch"] = "accelerate"
                return (index + 3, inner[after[1]]) if after[1] in inner else (index + 1, "python")
            return index + 1, "python"
        if ENVIRONMENT.match(word) or name in ("srun", "nohup", "env", "exec", "time", "sudo", "bash", "-c"):
            continue
        if index and (word.startswith("-") or words[0] in ("srun", "env", "nohup")):
            continue
        return 0, ""
    return 0, ""


def _of_launcher(tool: str, flags: dict[str, str], line: int, path: Path) -> Iterator[Setting]:
    """The launcher's flags under the names of accelerate's launch config, but for those that count processes."""
    if tool == "deepspeed" or flags.get("--use_deepspeed") == "true":
        yield Setting("distributed_type", DEEPSPEED, line, file=path)
    elif flags.get("--use_fsdp") == "true":
        yield Setting("distributed_type", "FSDP", line, file=path)
    counted = ("--num_processes", "--nproc_per_node", "--nproc-per-node", "--nnodes", "--num_gpus", "--num_nodes")
    for name, value in flags.items():
        plain = name.lstrip("-")
        if name in counted or name in ("-m", "--module", "--use_deepspeed", "--use_fsdp", "--include", "-u"):
            continue
        row = ACCELERATE_NAMES.get(plain) if tool == "accelerate" else None
        yield Setting(plain, _value(value), line, row or plain, TABLE if row else LAUNCH, path)


def _processes(tool: str, flags: dict[str, str], line: int, path: Path) -> int | None:
    """The GPU processes of a launch over all machines; None when a config file says it."""
    if tool == "python":
        return 1
    if tool == "accelerate":
        return _count(flags, ("--num_processes", "-n"), line, path) if "--num_processes" in flags else None
    if tool == "torchrun":
        each = _count(flags, ("--nproc_per_node", "--nproc-per-node"), line, path, 1)
        return each * _count(flags, ("--nnodes",), line, path, 1)
    if "$" in flags.get("--include", ""):
        said = f"--include is {flags['--include']}, which only the shell knows"
        raise InputError(said, path, line, fix="give --processes N")
    if "--include" in flags:
        return sum(len(host.partition(":")[2].split(",")) for host in flags["--include"].split("@"))
    if "--num_gpus" not in flags:
        fix = "give --processes N"
        raise InputError(
            "deepspeed takes every GPU of its machine here, which nothing here counts", path, line, fix=fix
        )
    return _count(flags, ("--num_gpus",), line, path) * _count(flags, ("--num_nodes",), line, path, 1)


def _count(flags: dict[str, str], names: tuple[str, ...], line: int, path: Path, default: int | None = None) -> int:
    name = next((name for name in names if name in flags), None)
    if name is None and default is not None:
        return default
    text = flags[name].partition(":")[0] if name is not None else ""
    if not text.isdigit() or int(text) < 1:
        said = f"{name} is {text or 'not given'}, which only the shell knows"
        raise InputError(said, path, line, fix="give --processes N")
    return int(text)


def _of_script(words: list[str], line: int, path: Path) -> Iterator[Setting]:
    """The script's own flags: `--learning_rate 1e-5`, `--bf16`, `--lr=1e-5`."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("--") or word == "--":
            continue
        name, equals, value = word.partition("=")
        if not equals and index < len(words) and not words[index].startswith("--"):
            value = words[index]
            index += 1
        yield Setting(
            name, value or "true", line, "deepspeed" if name == "--deepspeed" else "script_flag", LAUNCH, path
        )


def _value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isdigit() else text

"""The one thing that would help when a script can't be run, from its own last words.

Each row is what a failure prints and what a user can do about it. The first row that fits wins, so that the special
ones stand before the general ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Libraries whose releases decide what a script may import from them or call them with.
RELEASED = "trl|transformers|peft|accelerate|datasets|unsloth|bitsandbytes|deepspeed"
# What a port needs that a source doesn't: without it nothing was validated.
PORT_NEEDS = ("jax", "jaxlib", "flax", "optax", "orbax", "qwix", "tunix", "grain", "chex", "etils")
FRAME = re.compile(r'^\s*File "([^"]+)", (?:cell (\d+), )?line (\d+)', re.MULTILINE)
ERROR = re.compile(r"^((?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Exit|NotFound\w*|Iteration)):?\s?(.*)$")
RELEASE = (
    "the script was written for another release of {0}: --source-python PATH names the interpreter of the environment "
    "that it ran in"
)

# (what it prints, what helps); {0} is the first group.
CAUSES: tuple[tuple[str, str], ...] = (
    (r"was given a DatasetDict, and not one of its splits", "the source ends so on a GPU, too"),
    (r"had not (?:finished|ended) after", "it takes longer than it may: --timeout SECONDS, or fewer --steps"),
    (
        r"exit status -9\b|MemoryError|DefaultCPUAllocator: can't allocate",
        "out of memory: a smaller model with --model, or fewer --devices",
    ),
    (r"No space left on device", "the disk is full: TMPDIR=FOLDER names another place for what the scripts write"),
    (
        r"EOFError: EOF when reading a line|getpass|termios\.error",
        "it asks for input: give the answer as an argument after --, or in the variable that it reads",
    ),
    (
        r"(?:GatedRepoError|gated repo|Access to model \S+ is restricted|401 Client Error)",
        "a gated or private repository: log in with `hf auth login`, or give --model FOLDER and --data FILE",
    ),
    (
        r"no model at '([^']+)'|no known family of that name",
        "the model {0} isn't known: --family NAME says what it is, --model FOLDER gives a small one",
    ),
    (
        r"is not a (?:local folder|valid model identifier)|does not appear to have a file|RepositoryNotFoundError",
        "a model or dataset that the Hub doesn't have: --model FOLDER or --data FILE stands in for it",
    ),
    (
        r"cannot import name '(\w+)' from '(?:" + RELEASED + r")[\w.]*'",
        RELEASE.format("the library that had {0}"),
    ),
    (rf"No module named '((?:{RELEASED})\.[\w.]+)'", RELEASE.format("the library that had {0}")),
    (
        r"No module named '(bitsandbytes|flash_attn|deepspeed|triton|xformers|apex|liger_kernel|vllm)\b",
        "{0} needs a GPU and has no substitute here: --source-python PATH of an environment with a CPU build, or take "
        "it out of a copy",
    ),
    (
        r"'<=' not supported between instances of 'float' and 'str'",
        "a number is text, most often the learning rate: YAML reads 2e-4 as text, and 2.0e-4 as a number; the source "
        "ends so on a GPU, too",
    ),
    (
        r"No module named '((?:utils|src|common|config|configs|core|helpers|lib|models?|modules|data)(?:\.[\w.]+)?)'",
        "{0} is a module of the project that isn't in its folder: put it there",
    ),
    (
        r"No module named '([\w.]+)'",
        "install {0} here, or name an environment that has it: --source-python PATH",
    ),
    (
        r"(?:\b\w+\.)?(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument|"
        rf"module '(?:{RELEASED})[\w.]*' has no attribute '(\w+)'",
        RELEASE.format("the library of {0}"),
    ),
    (
        r"(?:bitsandbytes|flash[-_]attn|flash_attention|triton|xformers|apex|nvcc|CUDA_HOME|not compiled with CUDA|"
        r"No CUDA GPUs|NVIDIA driver|libcuda|nccl|fbgemm|deepspeed)",
        "it needs a GPU's kernels where no substitute is known: --source-python PATH with a CPU build, or take that "
        "call out of a copy",
    ),
    (
        r"the following arguments are required: (.+)|(?:Missing option|Missing argument) (.+)",
        "give it after --: {0}",
    ),
    (r"unrecognized arguments: (.+)", "words after -- that the script doesn't know: {0}"),
    (
        r"FileNotFoundError.*?No such file or directory: b?['\"]([^'\"]+)['\"]|Unable to find '([^']+)'",
        "a file that isn't here: --file {0}=FILE",
    ),
    (
        r"though made-up rows have '(.+?)'",
        "it isn't the rows that lack {0}: the source reads it of settings or a file of its own, and ends so on a GPU, "
        "too",
    ),
    (
        r"OperationalError: (?:unable to open database file|no such table: (\w+))",
        "a database that isn't here, of which nothing tells the tables' rows: --file NAME=FILE, by the name that the "
        "script gives it",
    ),
    (r"KeyError: '([A-Z][A-Z0-9]*_[A-Z0-9_]+)'", "a variable of the environment that isn't set: {0}=VALUE before it"),
    (
        r"(?:KeyError: |Column name |\"?Column )['\"]?([\w.-]+)['\"]?.*",
        "the rows lack {0}: --data FILE with the script's own columns",
    ),
    (
        r"element 0 of tensors does not require grad",
        "the source ends so on a GPU, too: gradient checkpointing that is switched on behind get_peft_model needs "
        "model.enable_input_require_grads()",
    ),
    (
        r"Perhaps your features \(`(?!labels`|input_ids`|attention_mask`)(\w+)` in this case\)",
        "the source ends so on a GPU, too: remove_unused_columns=False leaves {0}, a text, among what is collated",
    ),
    (
        r"list of encodings to this method that includes input_ids, but you provided (\[.*\])",
        "the rows that the trainer gets, {0}, have no tokens: a source that makes none ends so on a GPU, too; one "
        "whose own rows have them wants --data FILE",
    ),
    (
        r"(?:chosen|rejected|prompt) should be an? (?:str|tuple of str) but got",
        "DPOTrainer takes texts before TRL 0.12, and the dataset has turns of a conversation: the source ends so on a "
        "GPU, too; --data FILE with texts",
    ),
    (
        r"NameError: name '(\w+)' is not defined",
        "nothing makes {0} in the source, which ends so on a GPU, too, unless a line that did was left out of it",
    ),
    (
        r"must be divisible by (?:num_generations|the number of generations)",
        "several processes fill its groups of completions: --launch-config FILE, or --processes NUMBER, says how many",
    ),
    (r"DeepSpeed's config contradicts the arguments", "the source ends so on a GPU, too"),
    (r"Too (?:few|many) arguments for typing\.(\w+)", "no Python takes this {0}: the source ends so on a GPU, too"),
    (
        r"features can't be aligned because the key (\w+)",
        "datasets that the source puts together hold {0} as other types: so do the real ones, unless made-up rows are "
        "wrong in it; --data FILE gives rows of its own",
    ),
    (r"IndexError|DatasetGenerationError|Couldn't infer", "the rows aren't what it expects: --data FILE with its own"),
    (
        r"(?:Address already in use|EADDRINUSE)",
        "it opens a port that is taken: end what holds it, or give another number after --",
    ),
    (
        r"trained no token",
        "made-up rows lack what its masks look for (the template in front of an answer): --data FILE with its own rows",
    ),
    (
        r"which nothing tells how to make up",
        "name the script of the project that calls it, or give that parameter an annotation in a copy",
    ),
    (
        r"without training|no trainer was started",
        "it trained nothing: the arguments of a training run go after --, and a script that only defines functions "
        "needs a call",
    ),
    (r"which is started by (.+?) in (?:cell|line)", "name the script that {0} starts instead of the notebook"),
    (r"optimizer|Optimizer", "an optimizer that isn't installed: --source-python PATH of an environment that has it"),
    (r"SyntaxError|IndentationError", "the script can't be read by this Python: --source-python PATH names another"),
)


@dataclass(frozen=True)
class Crash:
    """What a traceback says: its last line, and where in the script it came from (0 when not in the script).

    `cell`: that of a notebook which the line is of, 0 in a script.
    """

    error: str
    line: int = 0
    code: str = ""
    cell: int = 0

    def place(self, name: str) -> str:
        """Where in the script of that name: `train.py:3`, or `train.ipynb cell 7, line 3`."""
        return f"{name} cell {self.cell}, line {self.line}" if self.cell else f"{name}:{self.line}"


def help_for(output: str, reason: str = "") -> str:
    """One line that says what would help a script that printed `output` and ended for `reason`; "" when unknown.

    Only the error's own lines are asked: a traceback shows code that names many libraries.
    """
    for text in (reason, last_error(output)):
        for pattern, line in CAUSES if text else ():
            found = re.search(pattern, text)
            if found:
                groups = [group for group in found.groups() if group]
                return line.replace("{0}", groups[0] if groups else "it").replace("it it", "it")
    return ""


def last_error(output: str) -> str:
    """The last line of `output` that names an error, with what follows it; the last line when none does."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for number in range(len(lines) - 1, -1, -1):
        if ERROR.match(lines[number]):
            return " ".join(lines[number : number + 3])[:500]
    return lines[-1][:500] if lines else ""


def crash_of(output: str, script: str | Path) -> Crash:
    """Where in `script` a traceback comes from: the last frame that is in it."""
    name, found = Path(script).name, Crash(last_error(output))
    lines = output.splitlines()
    for number, text in enumerate(lines):
        frame = FRAME.match(text)
        if frame and Path(frame[1]).name == name:
            code = lines[number + 1].strip() if number + 1 < len(lines) else ""
            cell = int(frame[2] or 0)
            found = Crash(found.error, int(frame[3]), "" if code.startswith("File ") else code, cell)
    return found


def is_environment(output: str, reason: str) -> bool:
    """Whether a port failed for what this machine lacks: that says nothing of the port. Memory, too: what a TPU
    computes piece by piece its stand-in holds whole."""
    missing = re.search(r"No module named '(\w+)", last_error(output))
    if re.search(r"RESOURCE_EXHAUSTED|MemoryError", last_error(output)):
        return True
    return bool(re.search(r"exit status -9\b", reason)) or bool(missing and missing[1] in PORT_NEEDS)


# What a port's own error most likely means; the first that fits.
OF_PORTS: Sequence[tuple[str, str]] = (
    (r"had not (?:finished|ended)", "it never ends, or needs longer here: --timeout SECONDS"),
    (r"No module named '(torch|trl|peft|accelerate|unsloth)\b", "the port still needs {0}, which a TPU host lacks"),
    (r"name '(\w+)' is not defined", "the port uses {0}, which it never makes: it stayed behind in the source"),
    (r"unexpected keyword argument '(\w+)'", "the port gives {0} to something that doesn't take it"),
    (r"has no attribute '(\w+)'", "the port reads {0} where there is none: another object than in the source"),
    (r"KeyError: ['\"]?([\w.-]+)", "the port reads {0}, which its rows or settings lack"),
    (r"FileNotFoundError", "the port reads a file that the source doesn't, or writes it elsewhere"),
    (r"(?:shape|dimension|incompatible|divisible|Sharding|sharding)", "shapes: the mesh, the batch size or the model"),
    (r"without training|no trainer was started", "the port never reaches its trainer"),
    (r"TypeError", "something of torch, or of another release, is handed to Tunix or the runtime"),
)


def cause_of_crash(output: str, reason: str = "") -> str:
    """Why a port most likely ended although its source ran."""
    for text in (reason, last_error(output)):
        for pattern, line in OF_PORTS:
            found = re.search(pattern, text)
            if found:
                return line.replace("{0}", found[1] if found.groups() else "")
    return "the port fails where the source doesn't"

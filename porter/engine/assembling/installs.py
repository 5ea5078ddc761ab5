"""What has to be installed: the GPU's libraries in a source's own install commands become the port's.

`!pip install`, `%pip install`, `uv pip install` and `uv add` of notebooks, also behind `&&`, and the same as
`get_ipython().system(...)` or `os.system(...)` in a script.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import libcst as cst

from ...extras import normal, of_extra
from ...source.project.requirements import PIP_OPTIONS
from ...text.edit import Edit
from ...text.edits import line_end, line_start
from ..packs.facts import Facts
from ..script.porting import Porting
from ..script.sites import facts_of

RULE = "TP003"
REASON = "the port's libraries instead of the GPU's"
NEEDED = "tpu-port[tpu]"
CAP = re.compile(r"(?:===?|~=|<=?)[^\s,;\"']*,?")
COMMAND = rf"(?:(?:uv[ \t]+)?(?:python3?[ \t]+-m[ \t]+)?pip3?[ \t]+{PIP_OPTIONS}install|uv[ \t]+add)[ \t]+"
LINE = re.compile(rf"(?m)(?:^[ \t]*[!%]?|&&|;|\|\|)[ \t]*{COMMAND}(?P<words>(?:[^\r\n\\#;&|]|\\\r?\n|\\.|(?<=\S)#)*)")
SYSTEM = re.compile(rf"(?P<quote>'''|\"\"\"|['\"])[!%]?{COMMAND}(?P<words>(?:(?!(?P=quote))[^;&|\r\n])*)(?P=quote)")
RUNNERS = (
    "get_ipython().system",
    "os.system",
    "get_ipython().run_line_magic",
    "subprocess.run",
    "subprocess.check_call",
)
# A word of a shell, quoted or not, or in part: `trl`, `"trl>=0.9"`, `trl=="0.9"`; or what stands between words.
WORD = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'\\])+|(?:\\\r?\n|\s)+|\\")
# Options that take the next word: a file, a folder, an address.
WITH_VALUE = frozenset(
    "-r -c -e -f -i -t --requirement --constraint --index-url --extra-index-url --find-links".split()
)
OF_THE_GPU = re.compile(r"pytorch\.org|nvidia|cu\d\d\d|flashinfer")


Path = tuple[tuple[cst.CSTNode, str], ...]
Blocks = frozenset[cst.CSTNode]


@dataclass(frozen=True)
class Install:
    """The words behind one `pip install` in the text."""

    start: int
    end: int
    words: str
    quote: str = '"'
    chained: bool = False  # with other commands of its line, `cd x && pip install y`


def install_edits(porting: Porting, edits: Sequence[Edit], used: Collection[str]) -> list[Edit]:
    """The edits of the source's install commands; none while no library of the GPU side is installed there. `used` are
    those that the port still needs."""
    module = porting.module
    if not porting.options.active(RULE) or not ("install" in module.text or "uv add" in module.text):
        return []
    commands = list(_commands(porting))
    facts = facts_of(module)
    if not any(name_of(word) in facts.gpu_distributions for command in commands for word in _packages(command.words)):
        return []
    made: list[Edit] = []
    has_core = any(_installs_core(command, facts) for command in commands)
    brought: dict[Path, Blocks] = {}
    last = _last_of_the_head(porting, commands) if has_core else None
    straight = next((one for one in commands if _installs_core(one, facts) and not _path_to(porting, one.start)), None)
    for command in commands:
        path = _path_to(porting, command.start)
        needed = has_core and not _is_brought(brought, path)
        # Where another branch has brought it, only a command that has its place, too, brings it again.
        wanted = NEEDED if needed and (not brought or _installs_core(command, facts)) else ""
        ahead = not path and straight is not None and command.start < straight.start
        if ahead or (last is not None and command.start <= last.start):
            wanted = ""
        new = changed_words(command.words, facts, wanted, used, command.quote)
        if command is last:
            _bring(brought, path, frozenset())
            made.append(_behind(porting, command))
        if new == command.words:
            continue
        if wanted and wanted in new:
            _bring(brought, path, frozenset())
        line, column = module.line_column(command.start)
        if command.chained and not _has_package(new):
            new = f'"{NEEDED}" '
        if _has_package(new):
            made.append(Edit(command.start, command.end, new, RULE, REASON, line, column))
        elif (node := _statement_at(porting, command.start)) is not None:
            known = len(porting.edits)
            porting.remove_statement(node, RULE, REASON)
            # What stands for a command in the syntax tree is shorter than its line.
            made += [replace(edit, end=max(edit.end, command.end)) for edit in porting.edits[known:]]
            del porting.edits[known:]
    return made


def _last_of_the_head(porting: Porting, commands: Sequence[Install]) -> Install | None:
    """The command behind which the port's libraries are installed where it isn't the one that installs the core: the
    last before the first import, if it stays. What it brings may cap what the port needs; pip lets the last win.
    """
    module = porting.module
    imports = [
        module.span(node)[0]
        for node in module.parents
        if isinstance(node, cst.Import | cst.ImportFrom) and not _path_to(porting, module.span(node)[0])
    ]
    facts = facts_of(module)
    first = next((command.start for command in commands if _installs_core(command, facts)), None)
    head = [each for each in commands if each.start < min(imports, default=0)]
    if first is None or not head or head[-1].start <= first or any(_path_to(porting, each.start) for each in head):
        return None
    begin = line_start(module.text, head[-1].start)
    own = module.text[begin : head[-1].start].lstrip().startswith(("!", "%"))
    stays = _has_package(changed_words(head[-1].words, facts, ""))
    return head[-1] if own and stays else None


def _behind(porting: Porting, command: Install) -> Edit:
    """A line that installs the port's libraries below a command."""
    at = line_end(porting.module.text, command.end)
    at -= porting.module.text[command.end : at].endswith("\n")
    quiet = " -q" if re.search(r"(?<!\S)-q+\b", command.words) else ""
    line, column = porting.module.line_column(command.start)
    newline = porting.module.newline
    return Edit(at, at, f'{newline}!pip install{quiet} "{NEEDED}"', RULE, REASON, line, column)


def changed_words(words: str, facts: Facts, wanted: str, used: Collection[str] = (), quote: str = '"') -> str:
    """The words of an install command without the GPU's libraries; `wanted` takes the place of the first of them.

    A pin of a library that `wanted` brings goes too. `used` are libraries that the port still needs, in the release
    of the day; where all that would make place are, `wanted` stands in front of them. `quote` is what a shell word is
    put in.
    """
    parts = [_without_cap(word, facts) if name_of(word) in used else word for word in WORD.findall(words)]
    only = {*facts.gpu_distributions} - {*used}
    gone = [index for index, word in enumerate(parts) if name_of(word) in only or (wanted == "" and _is_pin(word))]
    core = facts.core_distributions
    place = next((index for index in gone if name_of(parts[index]) in core), None) if wanted else None
    if place is None and wanted and not any(name_of(word) == "tpu-port" for word in parts):
        ahead = next((index for index, word in enumerate(parts) if name_of(word) in core), None)
        if ahead is not None:
            place, gone = ahead, [each + 2 if each >= ahead else each for each in gone]
            parts[ahead:ahead] = [f"{quote}{wanted}{quote}", " "]
    if not gone and place is None:
        return "".join(parts)
    if place is not None:
        gone += [index for index, word in enumerate(parts) if _is_pin(word) and index not in gone]
    gone += [index for index, word in enumerate(parts) if word == "--no-deps"]
    for index, word in enumerate(parts):
        value = next((i for i in range(index + 1, len(parts)) if parts[i].strip(" \t\r\n\\")), None)
        if word in WITH_VALUE and value is not None and OF_THE_GPU.search(parts[value]):
            gone += [index, value]
    kept: list[str] = []
    for index, word in enumerate(parts):
        if index == place:
            kept.append(f"{quote}{wanted}{quote}")
        elif index not in gone:
            kept.append(word)
        elif kept and not kept[-1].strip(" \t\r\n\\"):
            kept.pop()
    text = "".join(kept).lstrip(" \t")
    return text if words[-1:].isspace() else text.rstrip(" \t")


def name_of(word: str) -> str:
    """The package that a word of an install command names, normalised; "" for options and white space."""
    text = _unquoted(word)
    if text.startswith("-") or not text.strip(" \t\r\n\\"):
        return ""
    if "://" in text or text.startswith("git+"):
        host, _, path = text.partition("://")[2].partition("/") if "://" in text else ("", "/", text)
        path = re.split(r"[#@]", path, maxsplit=1)[0] if host else re.sub(r"[#@][^/]*$", "", path)
        text = path.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
    if text.startswith("{"):
        text = text.strip("{}").strip("_")
    return re.split(r"[\s<>=!~\[;@]", text, maxsplit=1)[0].lower().replace("_", "-")


def _without_cap(word: str, facts: Facts) -> str:
    """`peft>=0.4` of `"peft>=0.4,<0.9"`: what is used beside the port's libraries is as new as they are."""
    if name_of(word) not in facts.beside_distributions or "://" in word or word.startswith("git+"):
        return word
    bare = CAP.sub("", _unquoted(word)).rstrip(",")
    used = next((each for each in word if each in "\"'"), "")
    quote = used if re.search(r"[<>\[\s]", bare) else ""
    return f"{quote}{bare}{quote}" if _unquoted(word) != bare else word


def _unquoted(word: str) -> str:
    return re.sub("[\"']", "", word)


def _is_pin(word: str) -> bool:
    return name_of(word) in _brought() and re.search(r"[=<~]|://|git\+", word) is not None


@cache
def _brought() -> frozenset[str]:
    """What the extra `tpu` brings in releases that work together: a pin of the source's would break them up."""
    return frozenset(map(normal, of_extra("tpu")))


def _packages(words: str) -> Iterator[str]:
    takes_value = False
    for word in WORD.findall(words):
        if name_of(word) and not takes_value:
            yield word
        if word.strip(" \t\r\n\\"):
            takes_value = word in WITH_VALUE


def _has_package(words: str) -> bool:
    with_file = re.search(r"(?<!\S)(?:-r|-e|--requirement)\s", words) is not None
    return with_file or any(True for _ in _packages(words))


def _commands(porting: Porting) -> Iterator[Install]:
    module = porting.module
    if module.has_magics:
        for found in LINE.finditer(module.text):
            begin = line_start(module.text, found.start())
            start = begin + len(re.match(r"\s*", module.text[begin : found.end()])[0])  # type: ignore[index]
            if module.parsed[start] != module.text[start]:  # a stand-in
                chained = found[0][0] in "&;|" or module.text.startswith(("&", ";", "|"), found.end())
                yield Install(found.start("words"), found.end("words"), found["words"], chained=chained)
    for call in module.calls:
        if module.code(call.func) not in RUNNERS:
            continue
        start, end = module.span(call)
        said = SYSTEM.search(module.text, start, end)
        if said is not None:
            quote = '"' if said["quote"][0] == "'" else "'"
            yield Install(said.start("words"), said.end("words"), said["words"], quote)


def _installs_core(command: Install, facts: Facts) -> bool:
    """Whether it installs what training needs: there the port's libraries go in."""
    return any(name_of(word) in facts.core_distributions for word in _packages(command.words))


def _path_to(porting: Porting, offset: int) -> Path:
    """The blocks around an offset that a run may leave out, outermost first, each with which of its branches it is."""
    node = _statement_at(porting, offset)
    path: list[tuple[cst.CSTNode, str]] = []
    for around in porting.module.ancestors(node) if node is not None else ():
        parent = porting.module.parents.get(around)
        if isinstance(parent, cst.If):
            path.append((parent, "body" if around is parent.body else "orelse"))
        elif isinstance(parent, cst.Try | cst.TryStar):
            path.append((parent, str(parent.handlers.index(around)) if around in parent.handlers else "body"))
        elif isinstance(parent, cst.For | cst.While | cst.FunctionDef | cst.MatchCase) and around is parent.body:
            path.append((parent, "body"))
    return tuple(reversed(path))


def _is_brought(brought: dict[Path, Blocks], path: Path) -> bool:
    blocks = {block for block, _ in path}
    return any(path[: len(known)] == known and not (tried & blocks) for known, tried in brought.items())


def _bring(brought: dict[Path, Blocks], path: Path, tried: Blocks) -> None:
    """Note that what stands behind `path` has the port's libraries; where no branch lacks them, what follows it, too.

    The handlers of a `try` don't have what its body was to bring.
    """
    brought[path] = tried
    if not path:
        return
    *around, (block, branch) = path
    other = (*around, (block, "orelse" if branch == "body" else "body"))
    if isinstance(block, cst.If) and other in brought:
        _bring(brought, tuple(around), tried | brought[other])
    elif isinstance(block, cst.Try | cst.TryStar) and branch == "body":
        _bring(brought, tuple(around), tried | {block})


def _statement_at(porting: Porting, offset: int) -> cst.CSTNode | None:
    """The simple statement (or the stand-in of a magic) that holds an offset."""
    module = porting.module
    for node in module.parents:
        if isinstance(node, cst.SimpleStatementLine):
            start, _ = module.span(node)
            if start <= offset <= line_end(module.text, start):
                return node.body[0]
    return None

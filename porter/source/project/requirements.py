"""Releases that a text asks for: files that declare, commands that install, lists, tables and sentences of a README."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...releases.git_commits import releases_around
from ...releases.versions import Pin, key
from ...tables import libraries_read

INSTALLS = re.compile(
    r"(?m)^[^#\n]*\b(?:pip3?|uv|conda|mamba|micromamba|poetry|pdm)\b[^#\n]*(?:\b(?:install|add|create)\b|\s--with\s)[^#\n]*"
)
# A line of a list or of a table: `trl==0.16.0`, "- **TRL**: 0.16.0", `| trl | 0.16+ |`.
LISTED = re.compile(
    r"[ \t>|*+-]*[`*]*(?P<name>[A-Za-z][\w-]*\w)(?:\[[^\]]*\])?[`*]*[ \t]*"
    r"(?:(?P<sign>[=~]=|[<>]=?)[ \t]*|[|:]?[ \t`*]*)"
    r"v?(?P<version>\d+(?:\.\d+)+(?(sign)(?:[ \t]*,[ \t]*[<>~!=]=?[ \t]*[\d.]+)*))"
    r"(?P<more>\+?)[`*]*[ \t]*(?:$|[|(#;,–—-])"
)
# Cells of a table's row: "TRL (SFTTrainer)", then "0.24.0"; or "PEFT 0.17.1" in one.
NAME = r"(?:hugging ?face[ \t]+)?(?P<name>[A-Za-z][\w-]*\w)(?:[ \t]*\([^()]*\))?"
IN_ROW = re.compile(rf"{NAME}[ \t]*\|[ \t]*v?(?P<version>\d+(?:\.\d+){{2,}})[\w.+]*", re.IGNORECASE)
IN_CELL = re.compile(rf"{NAME}[ \t]+v?(?P<version>\d+(?:\.\d+){{2,}})[\w.+]*", re.IGNORECASE)
IS_RELEASE = re.compile(r"v?\d+(?:\.\d+)+\S*")
# A line of pins alone: `torch==2.5.1+cu124  transformers==4.49.0`.
PINNED = re.compile(r"[ \t>]*[\w.-]+==[\w.+]+(?:[ \t,]+[\w.-]+==[\w.+]+)+[ \t,]*")
# In a sentence: "trl 0.9.6 and transformers 4.42", "transformers==4.41、trl==0.9".
TOLD = re.compile(
    r"(?<![\w./@-])(?P<name>[A-Za-z][\w-]*[A-Za-z])[`*]{0,3}[ \t]*(?P<sign>[=~]=|[<>]=?)?[:：=]?[ \t`*]*"
    r"v?(?P<version>\d+(?:\.\d+)+)(?:\+\w+)?(?P<more>\+|(?:\.\w+)?)"
)
PARAGRAPHS = re.compile(r"\n[ \t>]*\n|\n(?=[ \t>]*(?:[-*+#|]|\d+\.)[ \t])|```[^\n]*\n")
# A sentence that warns of a release, or tells of other ones.
WARNS = re.compile(
    r"(?i)\b(?:not|don['’]t|doesn['’]t|never|avoid|bugs?|broken|breaks?|broke|fail\w*|issues?|error\w*|crash\w*|removed"
    r"|deprecated|until|before|prior|older|previous\w*|instead|incompatible|upgrad\w*|downgrad\w*|changed?)\b|不|旧|问题"
)
NEGATED = re.compile(r"(?i)\b(?:do not|don['’]t|never|avoid)\b(?!\s+forget)")
OF_RELEASE = re.compile(r"-(release|rc|patch|\d)", re.IGNORECASE)  # behind a tag's release: `v4.49-release`
VERSION = r"v?(\d+(?:\.\d+)+(?:\.dev\d+)?|\d+)(?:\.\*)?"
PIP_OPTIONS = r"(?:-[\w-]+(?:=\S+)?[ \t]+)*"  # of pip itself, in front of its command: `pip -q install`
PIP_INSTALL = re.compile(rf"\bpip3?[ \t]+{PIP_OPTIONS}install[ \t]+((?:[^\r\n\\;&|#]|\\\r?\n|\\.)*)")
PIP = re.compile(r"\bpip3?\b")


def revisions_in(text: str, library: str) -> list[list[Pin]]:
    """What each git address asks for: the release of a tag, `transformers@v4.49.0`; of a preview's, `@v4.49.0-Gemma-3`,
    the state before the next one, which calls itself 4.50.0.dev0; of a commit, `trl.git@e95f9fb`, its forerunner."""
    found: list[list[Pin]] = []
    for named in re.findall(rf"github\.com/[\w-]+/{re.escape(library)}(?:\.git)?@([\w.-]*\w)", text):
        if re.fullmatch(r"[0-9a-f]{7,40}", named):  # also one of decimal digits alone
            if around := releases_around(library, named):
                found.append([("==", around[0])] if not around[1] else [(">=", around[0]), ("<", around[1])])
        elif tag := re.fullmatch(rf"{VERSION}(-\w[\w.-]*)?", named):
            preview = tag[2] and not OF_RELEASE.match(tag[2])
            found.append([("==", _before_next(tag[1]) if preview else tag[1])])
    return found


def _before_next(release: str) -> str:
    parts = [*release.split("."), "0"]
    return f"{parts[0]}.{int(parts[1]) + 1}.0.dev0"


def commits_in(text: str, library: str) -> list[str]:
    """The commits that a text installs a library at, `transformers@0dcb46e`, and that came behind no known release."""
    found = re.findall(rf"github\.com/[\w-]+/{re.escape(library)}(?:\.git)?@([0-9a-f]{{7,40}})(?![\w.-])", text)
    return [commit for commit in found if releases_around(library, commit) is None]


def in_commands(text: str, library: str) -> Iterator[tuple[str, list[Pin]]]:
    """The lines of a shell script, a Dockerfile or a README that install a version, the last first, their continued
    lines joined: `pip install "trl==0.9.6" peft`. None before an upgrade to whatever was the newest. Then its lists.
    """
    if library not in text.lower():
        return
    name, text = re.escape(library), re.sub(r"\\\r?\n", " ", text)
    newest = rf"github\.com/[\w-]+/{name}\b|(?<![\w./-]){name}(?:\[[^\]\n]*\])?[\"'`]?(?=\s|$)"
    for command in INSTALLS.findall(text)[::-1]:
        if NEGATED.search(command):
            continue
        if found := in_command(command, library):
            yield command, found
        elif re.search(newest, command) and re.search(r"\s(?:-\w*U\w*|--upgrade)\s|\bgit\+", command):
            return
    for listed in (*lists_in(text)[::-1], *sentences_in(text), *_images_in(text, library)):
        if found := in_command(listed, library):
            yield listed, found


def lists_in(text: str) -> list[str]:
    """Lists and tables of releases that install nothing, `- trl==0.16.0` or `| TRL | 0.16.0 |`, as commands would."""
    found = [""]
    for line in text.splitlines():
        listed = LISTED.match(line)
        more = _of_row(line) if "|" in line else f" {line.strip(' >')}" if PINNED.fullmatch(line) else ""
        if more and listed is None:
            found[-1] += more
            continue
        if listed is None and set(line) <= set("|-: \t") and "|" in line:  # the line below a table's heads
            continue
        if listed is None or (listed["sign"] is None and listed["version"].count(".") < 2):  # 0.87 may be a score
            found.append("")
            continue
        sign = listed["sign"] or (">=" if listed["more"] else "==")
        found[-1] += f" {listed['name'].lower()}{sign}{listed['version']}"
    return [f"pip install{words}" for words in found if words]


def sentences_in(text: str) -> list[str]:
    """Sentences that name releases of several libraries, "trl 0.9.6 and transformers 4.42", as commands would; none
    that names two of one library, or warns of one."""
    libraries, listed = libraries_read(), []
    for paragraph in PARAGRAPHS.split(text):
        told: dict[str, set[str]] = {}
        for each in TOLD.finditer(paragraph):
            name, version = each["name"].lower().replace("_", "-"), each["version"]
            if name not in libraries or each["more"].startswith("."):
                continue
            sign = each["sign"] or (">=" if each["more"] else "==")
            if sign == "==" and version.count(".") < 2:  # `4.42` is the newest of these
                sign, version = "~=", f"{version}.0"
            told.setdefault(name, set()).add(f"{sign}{version}")
        pinned = [name for name, pins in told.items() if len(pins) == 1]
        if len(pinned) > 1 and len(pinned) == len(told) and WARNS.search(paragraph) is None:
            listed.append("pip install " + " ".join(f"{name}{next(iter(told[name]))}" for name in pinned))
    return listed


def _images_in(text: str, library: str) -> list[str]:
    """The releases that the image names which a Dockerfile begins with, as a command would: of
    `huggingface/transformers-pytorch-gpu:4.35.2`, or `...-training:2.1.0-transformers4.36.0-gpu`."""
    name = re.escape(library)
    found = re.findall(rf"(?m)^FROM[ \t]+\S*(?:/{name}[\w-]*:|-{name}){VERSION}(?![\w.])", text)
    return [f"pip install {library}=={release}" for release in found[-1:]]


def _of_row(line: str) -> str:
    """The releases in a table's row that has other cells in front; none of a row with releases of several kinds."""
    cells = [cell.strip(" \t`*") for cell in line.strip().strip("|").split("|")]
    found = ""
    for place, cell in enumerate(cells):
        after = cells[place + 1 : place + 3]
        pair = IN_ROW.fullmatch(f"{cell}|{after[0]}") if after else None
        named = IN_CELL.fullmatch(cell) or (None if IS_RELEASE.fullmatch("".join(after[1:])) else pair)
        if named is not None:
            found += f" {named['name'].lower()}=={named['version']}"
    return found


def in_command(command: str, library: str) -> list[Pin]:
    """What the last `pip install` of a line that names a version asks for."""
    for part in re.split(r"&&|\|\||;", command)[::-1]:
        if revisions := revisions_in(part, library):
            return revisions[0]
        conda = "conda" in part or "mamba" in part
        if found := requirement(part, library, start=r"(?<![\w./-])", conda=conda):
            return found
    return []


def all_in_file(text: str, library: str) -> list[list[Pin]]:
    """What a file that declares asks for; of a lock file that has several releases, for systems of their own, each,
    the newest first."""
    package = rf"name = \"{re.escape(library)}\"\s*\nversion = \"{VERSION}\""
    locked = {found[1] for found in _lines(package, text, library)}
    if len(locked) > 1:
        return [[("==", release)] for release in sorted(locked, key=key, reverse=True)]
    return [found] if (found := in_file(text, library)) else []


def in_file(text: str, library: str) -> list[tuple[str, str]]:
    if library not in text:
        return []
    name = re.escape(library)
    locked = next(_lines(rf"name = \"{name}\"\s*\nversion = \"{VERSION}\"", text, library), None)
    # Those of pixi and conda-lock.
    locked = locked or next(_lines(rf"\s*(?:- )?name: {name}\s*\n\s*version: {VERSION}\s*$", text, library), None)
    locked = locked or re.search(rf"\"{name}\": \{{[^}}]*?\"version\": \"=={VERSION}\"", text)
    # A line of `pip list`, or of conda's.
    locked = locked or next(_lines(rf"{name}[ \t]+{VERSION}(?:[ \t]+[\w.+-]+){{0,2}}[ \t]*$", text, library), None)
    if locked:
        return [("==", locked[1])]
    constraint = rf"{name}\s*=\s*(?:\{{[^}}\n]*version\s*=\s*)?\"(\^|~)?{VERSION}\""
    caret = next(_lines(constraint, text, library), None)
    if caret:  # Poetry: ^0.8.6 is >=0.8.6,<0.9
        parts = [int(part) for part in caret[2].partition(".dev")[0].split(".")]
        first = next((place for place, part in enumerate(parts) if part), 0)
        keep = first if caret[1] == "^" else min(1, len(parts) - 1)
        if caret[1] is None:
            return [("==", caret[2])]
        return [(">=", caret[2]), ("<", ".".join(map(str, [*parts[:keep], parts[keep] + 1])))]
    if revisions := revisions_in(text, library):
        return revisions[0]
    return requirement(text, library, start=r"(?m)(?:^[ \t\-\"']*|[\[,][ \t]*[\"'])", conda=True)


def _lines(pattern: str, text: str, library: str) -> Iterator[re.Match[str]]:
    """The lines that begin with a pattern which names the library in the first of its lines: a lock file of megabytes
    is looked through for a name, not for a pattern."""
    expression = re.compile(pattern, re.MULTILINE)
    place = text.find(library)
    while place >= 0:
        if found := expression.match(text, text.rfind("\n", 0, place) + 1):
            yield found
        end = text.find("\n", place)
        place = text.find(library, end) if end >= 0 else -1


def requirement(text: str, library: str, *, start: str, conda: bool = False) -> list[tuple[str, str]]:
    """The bounds that the first requirement of a library has; `start` is what stands in front of it in its line."""
    signs = r"===?|~=|<=?|>=?|!=" + ("|=" if conda else "")
    bound = rf"(?:{signs})\s*[\"']?{VERSION}[\"']?".replace("(\\d+(?:", "(?:\\d+(?:")  # trl=="0.9.6" of a shell
    bounds = rf"(?:\[[^\]\n]*\])?\s*(\(?{bound}(?:\s*,\s*{bound})*)"
    first = re.search(rf"{re.escape(library)}{bounds}", text)  # quick: it begins with a word
    if not first:
        return []
    found = re.compile(rf"{start}{re.escape(library)}{bounds}").search(text, text.rfind("\n", 0, first.start()) + 1)
    if not found:
        return []
    pins = re.findall(rf"({signs})\s*[\"']?{VERSION}", found[1])
    return [("==" if sign == "=" else sign, version) for sign, version in pins]


SHOWS = frozenset({"print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log", "echo"})


def without_messages(text: str) -> str:
    """A script without what it only says: `assert ..., "Please pip install git+..."` or `print("pip install -U trl")`
    is advice, and no command of its own."""
    if not PIP.search(text):
        return text
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    lines = text.splitlines(keepends=True)
    for said in (each for node in ast.walk(tree) for each in _said_by(node)):
        for number in range(said.lineno - 1, said.end_lineno or said.lineno):
            lines[number] = PIP.sub("", lines[number])
    return "".join(lines)


def _said_by(node: ast.AST) -> list[ast.expr]:
    """The messages of an assertion, an exception, or a call that prints or logs."""
    if isinstance(node, ast.Assert | ast.Raise):
        said = node.msg if isinstance(node, ast.Assert) else node.exc
        return [said] if said is not None else []
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SHOWS:
        return [each for each in node.args if isinstance(each, ast.Constant | ast.JoinedStr | ast.BinOp)]
    return []

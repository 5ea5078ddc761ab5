"""TODO comments: what needs a person stands at its place in the port."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace

import libcst as cst

from ...recipe import Finding
from ...safety.masking import find_secrets, masked
from ...safety.shown import one_line
from ...source.module import Module
from ...text.edit import Edit
from ...text.edits import line_above, line_start
from ..script.porting import Porting


def with_todos(porting: Porting, edits: list[Edit]) -> list[Edit]:
    """TODO comments above the statements they speak of; in front of an edit that covers the place."""
    module = porting.module
    result = list(edits)
    by_start: dict[int, list[str]] = {}
    for line, findings in sorted(porting.findings.standing().items()):
        comments = [comment_of(module, finding) for finding in findings]
        offset = module._line_starts[min(line, len(module._line_starts)) - 1]
        for edit in result:
            if edit.start <= offset < edit.end:
                offset = line_start(module.text, edit.start)
                break
        offset = _statement_line(module, offset)
        by_start.setdefault(offset, []).extend(comments)
    for offset, comments in by_start.items():
        indent = re.compile(r"[ \t]*").match(module.text, offset)
        space = indent[0] if indent else ""
        clash = next((edit for edit in result if edit.start == offset), None)
        if clash is not None and not clash.new and clash.end <= offset + len(space):  # its block moves out
            space = space[clash.end - offset :]
        there = _comments_above(module, offset)
        wanted = [comment for comment in dict.fromkeys(comments) if comment.split(":")[0] not in there]
        text = "".join(f"{space}{comment}{module.newline}" for comment in wanted)
        if wanted:
            line, column = module.line_column(offset)
            if clash is not None:
                result.remove(clash)
                result.append(replace(clash.below(text), line=line, column=column))
            else:
                result.append(Edit(offset, offset, text, "TP190", "something for a person to decide", line, column))
    return result


def comment_of(module: Module, finding: Finding) -> str:
    """The comment that says a finding in the port: one line, without the file's secrets."""
    said = masked(one_line(f"{finding.message} {finding.fix}"), _secrets(module))
    return f"# TODO(tpu-port {finding.rule}): {said}"


def _secrets(module: Module) -> tuple[str, ...]:
    if "secrets" not in module.memory:
        module.memory["secrets"] = tuple(secret.value for secret in find_secrets(module.text))
    found: tuple[str, ...] = module.memory["secrets"]
    return found


def _comments_above(module: Module, offset: int) -> str:
    """The comment lines directly above a line: what an earlier port has already said there."""
    said: list[str] = []
    while (above := line_above(module.text, offset)) < offset:
        line = module.text[above:offset]
        if not line.lstrip().startswith("#"):
            break
        said.append(line)
        offset = above
    return "".join(said)


def _statement_line(module: Module, offset: int) -> int:
    """The start of the line on which the statement around `offset` begins."""
    lines = _statement_lines(module)
    at = bisect_right(lines, (offset, len(module.text))) - 1
    return lines[at][0] if at >= 0 and offset < lines[at][1] else offset


def _statement_lines(module: Module) -> list[tuple[int, int]]:
    """Of every statement line the start of its first line and the end of its code, in order."""
    if "statement lines" not in module.memory:
        nodes = (node for node in module.parents if isinstance(node, cst.SimpleStatementLine))
        lines = (module.span(node) for node in nodes)
        module.memory["statement lines"] = sorted((line_start(module.text, start), end) for start, end in lines)
    found: list[tuple[int, int]] = module.memory["statement lines"]
    return found

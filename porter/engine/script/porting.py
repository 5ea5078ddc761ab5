"""The port of one file while it is written: what was read of it, the edits that are planned, what they need.

Rules get a `Porting` and call its methods; nothing else changes the source.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar

import libcst as cst

from ...source.conditions import is_elif
from ...source.remarks import Heading
from ...text.edit import Edit
from ...text.edits import Spans, apply_edits, begins_paragraph, comments_above, line_start, whole_lines, without_inner
from ...text.replaced import Replaced
from ...text.respelled import repeats, respelled
from .sites import Site, can_not_fail, counts_for_nothing, indentation, shown, small_statement
from .training import Training

# Parts of the port (`Edit.part`).
TRAINING = "training"  # `with mesh:` and the trainer's call below it
TRAINER = "trainer"  # what makes the trainer, its data and its optimizer
MESH = "mesh"  # the mesh below the imports, for all functions

KEPT = "names that rewrites leave"  # of `Porting.answers`
BLOCK = re.compile(r"[ \t]*(?:@|(?:async|def|class|for|if|try|while|with)\b)")  # a comment above another isn't its
SHARED = (cst.SimpleStatementLine, cst.SimpleStatementSuite)


@dataclass(eq=False, repr=False)  # one of a kind, and two methods less to make at every start
class Porting(Training):
    """A trainer that was read, and the edits that port it."""

    NOT_MINE: ClassVar[object] = object()  # what a rule returns for a call that it leaves to another

    trainers: tuple[Porting, ...] = ()  # of the whole file: those of its trainers that are ported
    lora_conditional: bool = False
    lora_heading: Sequence[str] = ()  # the comment lines above a LoraConfig whose rules stand with the trainer
    fuses: bool = False
    edits: list[Edit] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    saved: set[tuple[str, str]] = field(default_factory=set)  # the models that calls save, and their folders, as code
    elsewhere: set[str] = field(default_factory=set)  # what those call it
    code: dict[str, str] = field(default_factory=dict)  # parts of the trainer's statements that steps wrote, by name
    remarked: set[object] = field(default_factory=set)  # the source's comments that the port has
    headings: list[tuple[Heading, int, int]] = field(default_factory=list)  # marked places of a section's keywords

    @classmethod
    def of(cls, training: Training) -> Porting:
        """The port of what was read, nothing of it written yet."""
        return cls(**{each.name: getattr(training, each.name) for each in fields(Training)})

    def edit(self, start: int, end: int, new: str, rule: str, reason: str, *, part: str = "") -> None:
        """Plan one replacement. Line ends of `new` become the file's own, and its indentation where that is tabs, but
        in a block of the file that is indented by spaces."""
        new, carries = self.marks.lifted(new)  # the lines of values that are marked in it
        line, column = self.module.line_column(start)
        if self.module.indent == "\t" and " " not in indentation(self.module.text, start):
            new = re.sub(r"(?m)^(\t*)((?: {4})+)", lambda match: match[1] + "\t" * (len(match[2]) // 4), new)
        text = re.sub(r"\r?\n", self.module.newline, new)
        self.edits.append(Edit(start, end, text, rule, reason, line, column, part, carries))

    def covered(self, offset: int) -> bool:
        """Whether an edit replaces what stands at `offset`."""
        return self._replaced.holds(self.edits, offset)

    def written_words(self) -> frozenset[str]:
        """The words of the code that the edits write, without its strings and comments."""
        return self._replaced.written(self.edits)

    def written_names(self) -> frozenset[str]:
        """The names that the code of the edits reads, with the attributes behind them: `trainer.batches`."""
        return self._replaced.reads(self.edits)

    def repeats(self, node: cst.CSTNode, *, edits: Sequence[Edit] | None = None) -> bool:
        """Whether the code of one of the edits, or of all, repeats that of a node."""
        code = self.module.code(node)
        holding = [edit for edit in (self.edits if edits is None else edits) if code in edit.new]
        return any(repeats(edit, code) for edit in holding)

    def keeps(self, node: cst.CSTNode) -> bool:
        """Whether the port has a node where it stands, or in what is written there or elsewhere: a trainer's rows."""
        return not self.covered(self.module.span(node)[0]) or self.repeats(node)

    def around(self, offset: int) -> list[Edit]:
        """The edits that replace what stands at `offset`."""
        return [edit for edit in self.edits if edit.start <= offset < edit.end] if self.covered(offset) else []

    def respell(self, code: str, new: str, *, operand: bool = False, apart: Collection[int] = ()) -> None:
        """Code of the source becomes `new` where the edits repeat it; `operand`: in parentheses where it needs them.

        `apart`: places where the code means something else, whose edits stay.
        """
        self.edits[:] = [
            edit
            if any(edit.start <= place < edit.end for place in apart)
            else respelled(edit, code, new, operand=operand)
            for edit in self.edits
        ]

    @contextmanager
    def written_where_repeated(self) -> Iterator[None]:
        """What is written meanwhile over a part of the source is also written where earlier edits repeat that part."""
        before = len(self.edits)
        covered = Spans((edit.start, edit.end) for edit in self.edits if edit.end > edit.start)
        yield
        for edit in self.edits[before:]:
            code = self.module.text[edit.start : edit.end]
            if not edit.new or re.search(r"\w[.(]", code) is None:
                continue
            for index, earlier in enumerate(self.edits[:before]):
                self.edits[index] = respelled(earlier, code, edit.new, operand=True)
            if edit.start in covered:
                self.edits.remove(edit)

    def add_behind(self, part: str, lines: Sequence[str], site: Site) -> None:
        """Further lines behind the part of the port that stands for `site`."""
        for index, edit in enumerate(self.edits):
            if edit.part == part:
                between = f"{self.module.newline}{site.indent}"
                body, tail = (edit.new, "") if site.is_bound else (edit.new.removesuffix(between), between)
                new = body + "".join(f"{between}{line}" for line in lines) + tail
                self.edits[index] = replace(edit, new=new)
                return

    def take_header(self, part: str, header: str, node: cst.CSTNode) -> bool:
        """Take the line `header` off the edits in `node` that are a part of the port and begin with it; whether there
        are any."""
        changed, (start, end) = False, self.module.span(node)
        for index, edit in enumerate(self.edits):
            shorter = edit.without_header(header) if edit.part == part and start <= edit.start < end else None
            if shorter is not None:
                self.edits[index], changed = shorter, True
        return changed

    def within(self, node: cst.CSTNode) -> list[Edit]:
        """The edits that change a node, or a part of it."""
        start, end = self.module.span(node)
        return [edit for edit in self.edits if start <= edit.start and edit.end <= end]

    def code_now(self, node: cst.CSTNode) -> str:
        """A node's code as the port has it, with the edits that are made in it."""
        start, end = self.module.span(node)
        inner = [replace(edit, start=edit.start - start, end=edit.end - start) for edit in self.within(node)]
        text = self.module.text[start:end]
        return apply_edits(text, without_inner(text, inner))

    def settle(self, node: cst.CSTNode, new: str, rule: str, reason: str = "") -> None:
        """A node becomes `new`, in place of the edits that are made in it; for the first one's reason, if none is
        given."""
        inner = self.within(node)
        gone = {id(edit) for edit in inner}
        self.edits[:] = [edit for edit in self.edits if id(edit) not in gone]
        self.edit(*self.module.span(node), new, rule, reason or inner[0].reason)

    @cached_property
    def _replaced(self) -> Replaced:
        return Replaced(len(self.module.text) + 1)

    def keep_names(self, *nodes: cst.CSTNode) -> None:
        """Names of libraries that stay as they are written: no rewrite answers them."""
        self.answers.setdefault(KEPT, set()).update(nodes)

    def replace(self, site: Site, new: str, reason: str, *imports: str) -> None:
        """The call of `site` becomes `new`."""
        self.edit(site.start, site.end, new, site.rule, reason)
        self.imports.update(imports)

    def replace_statement(self, site: Site, new: str, reason: str, *imports: str, part: str = "") -> None:
        """The whole statement of `site` becomes `new` (several lines, the first without indentation).

        A site inside a larger expression (`return SFTTrainer(...)`) gets a statement in front, and its name stands
        there. Where other code shares the line, nothing is replaced and a person is asked to part them.
        """
        if not site.is_bound:
            indent = site.indent
            self.edit(site.statement_start, site.statement_start, f"{new}\n{indent}", site.rule, reason, part=part)
            self.edit(site.start, site.end, self.names.trainer, site.rule, reason)
            self.imports.update(imports)
            return
        if not (site.alone or site.variable):
            message = f"{shown(self.module.text[site.start : site.end])} stands inside other code on its line."
            fix = "Write it as a statement of its own line, and port again."
            self.find(site.rule, "error", message, fix, site.line, site.column)
            return
        start = site.statement_start
        if site.place == "suite":  # `if x: trainer.train()`: the body goes below its header
            start = len(self.module.text[:start].rstrip(" \t"))
            step = self.module.indent
            new = f"\n{site.indent}{step}" + new.replace("\n", f"\n{step}")
        self.edit(start, site.statement_end, new, site.rule, reason, part=part)
        self.imports.update(imports)

    def add_keyword(self, call: cst.Call, code: str, rule: str, reason: str, *, behind: cst.Arg | None = None) -> None:
        """A further keyword of a call that has arguments, behind one of them or the last: on a line of its own where
        that has one."""
        argument = behind or call.args[-1]
        start, end = self.module.span(argument)
        end = max(end, self.module.span(argument.value)[1])
        line = line_start(self.module.text, start)
        space = self.module.text[line:start]
        parted = f"\n{space}" if line > self.module.span(call)[0] and not space.strip() else " "
        self.edit(end, end, f",{parted}{code}", rule, reason)

    def remove_with_heading(self, node: cst.CSTNode, rule: str, reason: str) -> list[str]:
        """Take a statement of its own line out with the comment that heads it; the comment's lines, as far as they
        speak of that statement alone."""
        text, statement = self.module.text, self.module.statement(node)
        begin, stop = whole_lines(text, *self.module.span(statement))
        above = comments_above(text, begin)
        alone = re.match(r"[ \t\f]*(\r\n|\r|\n|$)", text[stop:]) is not None  # a paragraph with the comment
        if above == begin or not alone or not begins_paragraph(text, above):
            self.remove_statement(node, rule, reason)
            return []
        self.edit(*whole_lines(text, above, self.module.span(statement)[1]), "", rule, reason)
        return [line.strip() for line in text[above:begin].splitlines()]

    def remove_statement(self, node: cst.CSTNode, rule: str, reason: str, follows: int | None = None) -> bool:
        """The statement that holds `node` goes; a block that would be empty keeps `pass`.

        `follows`: the start of the statement that its values go to. A comment above the removed one goes along, where
        it speaks of that one alone: whether one does.
        """
        if not isinstance(node, cst.BaseCompoundStatement):
            small, place = small_statement(self.module, node)
            if small is None:
                return False
            if place != "line":
                holder = self.module.parents[small]
                before = holder.body[: holder.body.index(small)] if isinstance(holder, SHARED) else ()
                start, end = self.module.span(small)
                if before:  # `a; b`: with the semicolon in front
                    self.edit(self.module.span(before[-1])[1], end, "", rule, reason)
                else:
                    self.edit(start, end, "pass", rule, reason)
                return False
        statement = self.module.statement(node)
        start, end = self.module.span(statement)
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) and statement.decorators:
            start = self.module.span(statement.decorators[0])[0]
        parent = self.module.parents.get(statement)
        if isinstance(parent, cst.IndentedBlock) and all(
            other is statement or self.is_gone(other) for other in parent.body
        ):
            holder = self.module.parents[parent]
            alone = isinstance(holder, cst.If) and holder.orelse is None and not is_elif(self.module, holder)
            if alone or can_not_fail(holder, parent) or counts_for_nothing(self.module, holder):
                self.remove_statement(holder, rule, reason)
            else:
                self.edit(start, end, "pass", rule, reason)
            return False
        if isinstance(parent, cst.IndentedBlock) and all(
            other is statement or self.is_gone(other) or _is_import(other) for other in parent.body
        ):
            self.edit(start, end, "pass", rule, reason)  # the imports may go as well, once nothing uses them
            return False
        begin, stop = whole_lines(self.module.text, start, end)
        above, along = comments_above(self.module.text, begin), False
        if follows is not None and above < begin:
            between = self.module.text[stop:follows]
            blank = re.match(r"([ \t\f]*(\r\n|\r|\n))+", between)
            if not re.sub(r"#[^\r\n]*", "", between).strip():  # nothing but comments
                stop += blank.end() if blank is not None else 0
                along = True
            elif (blank is not None or BLOCK.match(between)) and begins_paragraph(self.module.text, above):
                lines = [line.strip() for line in self.module.text[above:begin].splitlines()]
                indent = indentation(self.module.text, follows)
                self.edit(follows, follows, "".join(f"{line}\n{indent}" for line in lines), rule, reason)
                begin, stop = whole_lines(self.module.text, above, end)
                along = True
        self.edit(begin, stop, "", rule, reason)
        return along

    def is_gone(self, statement: cst.CSTNode, *, leaves: tuple[str, ...] = ("",)) -> bool:
        """Whether an edit takes a statement out, or leaves no more of it than one of `leaves`."""
        start, end = self.module.span(statement)
        return any(edit.new.strip() in leaves and edit.start <= start and end <= edit.end for edit in self.edits)


def _is_import(statement: cst.CSTNode) -> bool:
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Import | cst.ImportFrom)

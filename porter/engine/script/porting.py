"""The state of porting one file: what was read, what is to be written, what a person must know.

Rules get a `Porting` and call its methods; nothing else changes the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import libcst as cst

from ...port import Options
from ...recipe import Field, Finding, Recipe, Severity, Value
from ...runtime.facts.field_tables import version_key
from ...source.module import Module
from ...source.remarks import Heading
from ...source.scopes import Scope
from ...source.values import SEES_GPU
from ...text.edit import Edit
from ...text.edits import begins_paragraph, comments_above, whole_lines
from ...text.expressions import python, quoted
from ...text.marks import Marks
from ..draft.findings import Findings
from ..packs.packs import Pack
from .sites import Site, counts_for_nothing, indentation, shown, small_statement

if TYPE_CHECKING:
    from ..libraries.torch.training_loops import Loop

TRAINING = "training"  # the part that trains: `with mesh:` and the trainer's call
TRAINER = "trainer"  # the part of the port (`Edit.part`) that makes the trainer, its data and its optimizer

# A comparison with a half-width type, which the port writes otherwise.
COMPARES = re.compile(r"([=!]=|\bis\b).*(float16|half)\b|(float16|half)\b.*([=!]=|\bis\b)")
KEPT = "names that rewrites leave"  # of `Porting.answers`
SHARED = (cst.SimpleStatementLine, cst.SimpleStatementSuite)


@dataclass
class Names:
    """The variables of the port."""

    model: str = "model"
    mesh: str = "mesh"
    tokenizer: str = "tokenizer"
    batches: str = "batches"
    eval_batches: str = ""
    schedule: str = "schedule"
    optimizer: str = "optimizer"
    trainer: str = "trainer"
    runtime: str = "rt"


# The first releases of TRL whose trainers, given no arguments, save to a folder of their model's name.
NAMED_AFTER_MODEL = {"SFT": (0, 15), "GRPO": (0, 14), "DPO": (0, 19), "RLOO": (0, 22), "KTO": (1, 0)}


@dataclass
class Porting:
    """One file on its way: sites found, values read, edits planned."""

    NOT_MINE: ClassVar[object] = object()  # what a rule returns for a call that it leaves to another

    module: Module
    options: Options
    packs: tuple[Pack, ...]
    sites: list[Site] = field(default_factory=list)
    trainer: Site | None = None
    model: Site | None = None
    references: tuple[Site, ...] = ()  # where a preference trainer's ref_model is loaded
    loads: dict[cst.CSTNode, Mapping[str, Value]] = field(default_factory=dict)  # models by branch, with their values
    inject: Site | None = None
    branch_injects: tuple[Site, ...] = ()  # of which one or another puts the adapters in, into a variable of its own
    arguments: Site | None = None
    config: Site | None = None  # the training config's call, also where it stays an object
    arguments_object: str = ""
    quantization: Site | None = None  # a config whose format stands at the model in the port
    lora: Site | None = None
    lora_object: str = ""
    lora_certain: bool = False  # lora_object is a LoraConfig, never None
    lora_conditional: bool = False
    evaluates: bool = False
    resumes: str = ""
    resumes_from: bool = False  # it may be a path
    fuses: bool = False
    loop: Loop | None = None  # a training loop written by hand, which stands for the trainer
    foreign_model: bool = False  # an object that this file doesn't load: the port takes it as Tunix's
    versions: dict[str, str] = field(default_factory=dict)
    answers: dict[object, Any] = field(default_factory=dict)  # to what is asked again and again; all views share them
    names: Names = field(default_factory=Names)
    recipe: Recipe = field(default_factory=lambda: Recipe(""))
    fields: tuple[Field, ...] = ()  # what is owed of each keyword
    marks: Marks = field(default_factory=Marks)  # of all views
    edits: list[Edit] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    moved: dict[str, str] = field(default_factory=dict)
    saved: set[tuple[str, str]] = field(default_factory=set)  # the models that calls save, and their folders, as code
    findings: Findings = field(default_factory=Findings)
    refused: bool = False  # nothing of this trainer is ported
    others: tuple[Site, ...] = ()  # the file's other trainers
    mates: tuple[Porting, ...] = ()  # the views of trainers that the same variable holds
    own_injects: tuple[Site, ...] = ()  # the get_peft_model calls of all of them
    kept: frozenset[cst.CSTNode] = frozenset()  # configs that stay objects for another trainer
    full_elsewhere: bool = False  # another trainer trains all weights of the same model
    given_away: bool = False  # the trainer is returned to code that this file hasn't
    unsloth_rows: str = ""  # Unsloth's release, where its SFTTrainer prepares the rows
    used_elsewhere: bool = False  # by functions that don't make the trainer
    elsewhere: set[str] = field(default_factory=set)  # what those call it
    remarked: set[object] = field(default_factory=set)  # the source's comments that the port has
    headings: list[tuple[Heading, int, int]] = field(default_factory=list)  # marked places of a section's keywords

    def edit(self, start: int, end: int, new: str, rule: str, reason: str, *, part: str = "") -> None:
        """Plan one replacement. Line ends of `new` become the file's own, and its indentation where that is tabs, but
        in a block of the file that is indented by spaces."""
        new, carries = self.marks.lifted(new)  # the lines of values that are marked in it
        line, column = self.module.line_column(start)
        if self.module.indent == "\t" and " " not in indentation(self.module.text, start):
            new = re.sub(r"(?m)^(\t*)((?: {4})+)", lambda match: match[1] + "\t" * (len(match[2]) // 4), new)
        text = re.sub(r"\r?\n", self.module.newline, new)
        self.edits.append(Edit(start, end, text, rule, reason, line, column, part, carries))

    def of_role(self, role: str) -> list[Site]:
        """The sites of a role, in source order."""
        asked = ("sites", role, len(self.sites))
        if asked not in self.answers:
            self.answers[asked] = [site for site in self.sites if site.role == role]
        found: list[Site] = self.answers[asked]
        return found

    def covered(self, offset: int) -> bool:
        """Whether an edit replaces what stands at `offset`."""
        return any(edit.start <= offset < edit.end for edit in self.edits)

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

    def remove_statement(self, node: cst.CSTNode, rule: str, reason: str, follows: int | None = None) -> None:
        """The statement that holds `node` goes; a block that would be empty keeps `pass`.

        `follows`: the start of the statement that its values go to. A comment above the removed one goes along, where
        it speaks of that one alone.
        """
        if not isinstance(node, cst.BaseCompoundStatement):
            small, place = small_statement(self.module, node)
            if small is None:
                return
            if place != "line":
                holder = self.module.parents[small]
                before = holder.body[: holder.body.index(small)] if isinstance(holder, SHARED) else ()
                start, end = self.module.span(small)
                if before:  # `a; b`: with the semicolon in front
                    self.edit(self.module.span(before[-1])[1], end, "", rule, reason)
                else:
                    self.edit(start, end, "pass", rule, reason)
                return
        statement = self.module.statement(node)
        start, end = self.module.span(statement)
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) and statement.decorators:
            start = self.module.span(statement.decorators[0])[0]
        parent = self.module.parents.get(statement)
        if isinstance(parent, cst.IndentedBlock) and all(
            other is statement or self.is_gone(other) for other in parent.body
        ):
            holder = self.module.parents[parent]
            alone = isinstance(holder, cst.If) and holder.orelse is None and not self._is_elif(holder)
            if alone or counts_for_nothing(self.module, holder):
                self.remove_statement(holder, rule, reason)
            else:
                self.edit(start, end, "pass", rule, reason)
            return
        if isinstance(parent, cst.IndentedBlock) and all(
            other is statement or self.is_gone(other) or _is_import(other) for other in parent.body
        ):
            self.edit(start, end, "pass", rule, reason)  # the imports may go as well, once nothing uses them
            return
        begin, stop = whole_lines(self.module.text, start, end)
        above = comments_above(self.module.text, begin)
        if follows is not None and above < begin:
            between = self.module.text[stop:follows]
            blank = re.match(r"([ \t\f]*(\r\n|\r|\n))+", between)
            if not re.sub(r"#[^\r\n]*", "", between).strip():  # nothing but comments
                stop += blank.end() if blank is not None else 0
            elif blank is not None and begins_paragraph(self.module.text, above):
                lines = [line.strip() for line in self.module.text[above:begin].splitlines()]
                indent = indentation(self.module.text, follows)
                self.edit(follows, follows, "".join(f"{line}\n{indent}" for line in lines), rule, reason)
                begin, stop = whole_lines(self.module.text, above, end)
        self.edit(begin, stop, "", rule, reason)

    def is_gone(self, statement: cst.CSTNode, *, leaves: tuple[str, ...] = ("",)) -> bool:
        """Whether an edit takes a statement out, or leaves no more of it than one of `leaves`."""
        start, end = self.module.span(statement)
        return any(edit.new.strip() in leaves and edit.start <= start and end <= edit.end for edit in self.edits)

    def _is_elif(self, node: cst.If) -> bool:
        parent = self.module.parents.get(node)
        return isinstance(parent, cst.If) and parent.orelse is node

    def find(
        self,
        rule: str,
        severity: Severity,
        message: str,
        fix: str,
        line: int,
        column: int,
        todo: bool | None = None,
        key: str = "",
    ) -> None:
        """Record a finding; one that needs a person (error, or `todo`) also stands as a comment at its site.

        `key`: by which another rule may take it back (`withdraw`).
        """
        if line < 1:  # a default's: it has no place of its own
            line, column = (self.trainer.line, self.trainer.column) if self.trainer is not None else (1, 1)
        stands = severity == "error" if todo is None else todo
        self.findings.add(Finding(rule, severity, message, fix, line, column), key, stands=stands)

    def withdraw(self, key: str) -> None:
        """Take back what was found under a key; `.deepspeed` means that keyword of any class."""
        self.findings.withdraw(key)

    def fate(self, row: Field) -> None:
        """Add a row to the table of fates, or replace the row of the same keyword."""
        kept = tuple(old for old in self.fields if (old.source, old.line) != (row.source, row.line))
        self.fields = (*kept, row)

    def change_fate(self, source: str, **changes: Any) -> None:
        """Correct the row of a keyword by what the writer decided; `.warmup_ratio` means that of any class."""
        suffix = source if source.startswith(".") else f"\n{source}"
        self.fields = tuple(
            replace(row, **changes) if f"\n{row.source}".endswith(suffix) else row for row in self.fields
        )

    def fill(self, values: Mapping[str, Value]) -> None:
        """Put values into the recipe."""
        self.recipe = self.recipe.with_values(values)

    def value(self, place: str) -> Value | None:
        return self.recipe.get(place)

    def known(self, place: str, fallback: Any = None) -> Any:
        return self.recipe.known(place, fallback)

    def given(self, place: str) -> bool:
        """Whether the source itself sets `place`."""
        value = self.recipe.get(place)
        return value is not None and value.kind != "default"

    def text(self, place: str) -> str:
        """The code that stands for `place` at the trainer: the source's own spelling where it can be seen there."""
        value = self.recipe.values[place]
        told = value.known and ("\n" in value.text or COMPARES.search(value.text) or _asks_gpu(value.text))
        if value.kind == "expression" and _asks_gpu(value.text):
            return value.code
        if not told and (value.kind == "expression" or (value.text and self.visible(value))):
            return value.text or value.code
        if not value.known:
            return value.code
        literal = value.literal
        if isinstance(literal, str):
            return quoted(literal)
        if told and not isinstance(literal, float):
            return python(literal)
        return re.sub(r"(?<=\de-)0(?=\d)", "", value.code) if isinstance(literal, float) else value.code

    def output_dir(self) -> str:
        """The code of the output folder; transformers takes `trainer_output` when it is left out of the arguments."""
        value = self.value("run.output_dir")
        if value is not None and not value.is_literal(None):
            return self.text("run.output_dir")
        without = self.trainer is not None and not (self.config or self.arguments or self.arguments_object)
        return self._folder_without_arguments() if without else '"trainer_output"'

    def _folder_without_arguments(self) -> str:
        """Where a trainer saves to that was given no arguments: TRL's newer ones name the folder after the model."""
        assert self.trainer is not None
        kind = self.trainer.qualified.rpartition(".")[2].removesuffix("Trainer")
        release = version_key(self.versions.get("trl", "").partition(" ")[0] or "0")
        model = self.value("model.id")
        if release < NAMED_AFTER_MODEL.get(kind, (999,)):
            return '"tmp_trainer"'
        if model is None or (self.model is None and not model.known):
            return '"trainer_output"'  # an object that this file doesn't load has no name here
        if model.known:
            return python(f"{str(model.literal).rpartition('/')[2]}-{kind}")
        return f'{self.text("model.id")}.split("/")[-1] + "-{kind}"'

    def eval_rows(self) -> str:
        """The code of an evaluation batch's rows on all processes of the GPU run."""
        size, processes = self.text("batch.eval_per_device"), int(self.known("mesh.processes", 1))
        if processes == 1:
            return size
        if re.fullmatch(r"\d+", size):
            return str(int(size) * processes)
        return f"{size} * {processes}" if re.fullmatch(r"[\w.]+", size) else f"({size}) * {processes}"

    def visible(self, value: Value) -> bool:
        """Whether the names in the text of a value mean the same at the trainer as where it was read."""
        if value.origin is None or self.trainer is None or value.text == value.code:
            return True
        for site in (self.arguments, self.lora, self.model, self.inject):
            if site is None:
                continue
            if any(argument.value is value or argument.value == value for argument in site.arguments):
                return in_reach(site.scope, self.trainer.scope)
        return True

    def fresh(self, *wanted: str) -> str:
        """The first of `wanted` that the file does not use as a name; else the first with a number behind it."""
        taken, own = self.module.bound_names, (self.names.mesh, self.names.batches)
        for name in wanted:
            if name not in taken and name not in own:
                return name
        number = 2
        while (name := f"{wanted[0]}_{number}") in taken or name in own:
            number += 1
        return f"{wanted[0]}_{number}"

    def fresh_at(self, scope: Scope, wanted: str) -> str:
        """`wanted` when nothing of that name can be seen in `scope`; else a name that the file does not use."""
        return wanted if scope.lookup(wanted) is None else self.fresh(wanted)

    @property
    def saves_adapter(self) -> bool:
        """Whether what is trained is surely an adapter."""
        return (self.lora is not None or self.lora_certain) and all(
            mate.lora is not None or mate.lora_certain for mate in self.mates
        )

    def runtime_module(self, name: str = "") -> str:
        """The module path of the runtime (or a module of it): `porter.runtime` or the vendored copy."""
        base = "porter_runtime" if self.options.vendor else "porter.runtime"
        return f"{base}.{name}" if name else base

    def runtime_import(self) -> str:
        """The import line that binds the runtime."""
        if self.options.vendor:
            return f"import porter_runtime as {self.names.runtime}"
        return f"from porter import runtime as {self.names.runtime}"

    def rt(self, name: str) -> str:
        """`rt.name`, and its import."""
        self.imports.add(self.runtime_import())
        return f"{self.names.runtime}.{name}"


def _is_import(statement: cst.CSTNode) -> bool:
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Import | cst.ImportFrom)


def _asks_gpu(text: str) -> bool:
    return any(name in text for name in SEES_GPU)


def in_reach(inner: Scope, outer: Scope) -> bool:
    """Whether names of scope `inner` can be read in scope `outer`: it is that scope or one around it."""
    scope: Scope | None = outer
    while scope is not None:
        if scope is inner:
            return True
        scope = scope.parent
    return False


def families(packs: Iterable[Pack]) -> list[Any]:
    """Paths of the family tables that contributed packs bring."""
    return [path for pack in packs for path in pack.families]

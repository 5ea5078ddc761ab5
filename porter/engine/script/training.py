"""What was read of one trainer of a script, and what is said of it: nothing here can edit.

Everything that reads a script gets a `Training`; `Porting`, which writes, is made of one when all are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from ...port import Options
from ...recipe import Field, Finding, Recipe, Severity, Value
from ...runtime.facts.family import Family
from ...runtime.facts.field_tables import version_key
from ...source.launch.launch_config import Setting
from ...source.machine.gpu_of_run import gpu_names
from ...source.module import Module
from ...source.scopes import Scope
from ...text.expressions import python, quoted
from ...text.marks import Marks
from ..draft.findings import Findings
from ..packs.pack import Pack
from .sites import Argument, Site

if TYPE_CHECKING:
    from ..loops.statements.facts import Loop


# A comparison with a half-width type, which the port writes otherwise.
COMPARES = re.compile(r"([=!]=|\bis\b).*(float16|half)\b|(float16|half)\b.*([=!]=|\bis\b)")


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
class Training:
    """One trainer of a file, as it is read: sites found, values known, findings made."""

    module: Module
    options: Options
    packs: tuple[Pack, ...]
    sites: list[Site] = field(default_factory=list)
    launch: tuple[Setting, ...] = ()  # what the launch files say
    mesh: tuple[int, int] | None = None  # --mesh
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
    evaluates: bool = False
    evaluates_its_own: bool = False  # ... the rows that the trainer was given
    resumes: str = ""
    resumes_from: bool = False  # it may be a path
    loop: Loop | None = None  # a training loop written by hand, which stands for the trainer
    foreign_model: bool = False  # an object that this file doesn't load: the port takes it as Tunix's
    versions: dict[str, str] = field(default_factory=dict)
    answers: dict[object, Any] = field(default_factory=dict)  # to what is asked again and again; all views share them
    names: Names = field(default_factory=Names)
    settings: tuple[Setting, ...] = ()  # of the launch files, and of a file that the arguments name
    family: Family | None = None
    sizes: Mapping[str, Any] | None = None  # of the family's model, by the names of its configuration
    recipe: Recipe = field(default_factory=lambda: Recipe(""))
    fields: tuple[Field, ...] = ()  # what is owed of each keyword
    marks: Marks = field(default_factory=Marks)  # of all views
    imports: set[str] = field(default_factory=set)
    findings: Findings = field(default_factory=Findings)
    refused: bool = False  # nothing of this trainer is ported
    others: tuple[Site, ...] = ()  # the file's other trainers
    mates: tuple[Training, ...] = ()  # the views of trainers that the same variable holds
    own_injects: tuple[Site, ...] = ()  # the get_peft_model calls of all of them
    kept: frozenset[cst.CSTNode] = frozenset()  # configs that stay objects for another trainer
    full_elsewhere: bool = False  # another trainer trains all weights of the same model
    given_away: bool = False  # the trainer is returned to code that this file hasn't
    only_evaluates: bool = False  # nothing trains the trainer
    rows_by: str = ""  # the release of the library that prepares the rows in the trainer's place
    loaded_by: str = ""  # that which loads the model and its tokenizer in transformers' place
    counted_by: str = ""  # that which counts the tokens of a step in its own way
    patched_from: tuple[int, ...] | None = None  # when a library is imported that writes TRL's classes anew,
    patched_by: str = ""  # and its release
    notes: dict[str, str] = field(default_factory=dict)  # who decided a value, by the file that its origin names
    used_elsewhere: bool = False  # by functions that don't make the trainer
    ignored: list[tuple[str, tuple[Argument, ...]]] = field(default_factory=list)  # keywords of no effect, by rule
    resume_test: tuple[cst.BaseExpression, str] | None = None  # where the script asks for checkpoints; as the port does
    masked_behind: bool = False  # what is trained of its rows is said of the trainer when it is made
    padding_mask: cst.Call | None = None  # the collator that masks no more than padding
    collator_made: tuple[cst.Call, str] | None = None  # one of a variable, and what takes its place; "" for nothing

    def of_role(self, role: str) -> list[Site]:
        """The sites of a role, in source order."""
        asked = ("sites", role, len(self.sites))
        if asked not in self.answers:
            self.answers[asked] = [site for site in self.sites if site.role == role]
        found: list[Site] = self.answers[asked]
        return found

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

    def add_reason(self, source: str, reason: str) -> None:
        """Another difference of a keyword, behind what its table says of it; `source` as for `change_fate`. One that is
        dropped has none: nothing of the port is as it says."""
        for row in self.fields:
            named = row.source == source or (source.startswith(".") and row.source.endswith(source))
            if named and row.fate != "dropped" and reason not in row.reason:
                said = f"{row.reason.rstrip('.')}; {reason}" if row.reason else reason
                self.change_fate(row.source, fate="changed", reason=said)

    def fill(self, values: Mapping[str, Value]) -> None:
        """Put values into the recipe."""
        self.recipe = self.recipe.with_values(values)

    def value(self, place: str) -> Value | None:
        return self.recipe.get(place)

    def known(self, place: str, fallback: Any = None) -> Any:
        return self.recipe.known(place, fallback)

    def note(self, value: Value | None) -> str:
        """What a comment says of a value that another library decides than its config's; empty for any other."""
        return self.notes.get(value.origin.file, "") if value is not None and value.origin is not None else ""

    def given(self, place: str) -> bool:
        """Whether the source itself sets `place`."""
        value = self.recipe.get(place)
        return value is not None and value.kind != "default"

    def text(self, place: str) -> str:
        """The code that stands for `place` at the trainer: the source's own spelling where it can be seen there."""
        value = self.recipe.values[place]
        told = value.known and ("\n" in value.text or COMPARES.search(value.text) or self._asks_gpu(value.text))
        if value.kind == "expression" and self._asks_gpu(value.text):
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
        library = self.trainer.qualified.partition(".")[0]
        release = version_key(self.versions.get(library, "").partition(" ")[0] or "0")
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

    def _asks_gpu(self, text: str) -> bool:
        names = gpu_names(self.module)
        return any(name in text for name in (*(name.rpartition(".")[2] for name in names.asking), *names.gpu_build))

    def rt(self, name: str) -> str:
        """`rt.name`, and its import."""
        self.imports.add(self.runtime_import())
        return f"{self.names.runtime}.{name}"


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

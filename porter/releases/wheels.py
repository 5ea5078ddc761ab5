"""Read what one release of a library has from its wheel: names, signatures, members, requirements; nothing is run.

Everything is read with `ast`, in all branches of `if` and `try`: a lazily importing package lists its names both for
the type checker and for itself. What transformers' model files define is read line by line, since parsing thousands of
files for each of a hundred releases would take hours.
"""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path

from .signatures import Signature, class_signatures, function_signature

LIBRARIES = ("trl", "transformers", "peft", "accelerate")
_SKIPPED = re.compile(
    r"^(testing_utils|benchmark|test_utils|onnx|kernels|conversion_mapping|convert_.*|keras_.*|.*\btf_.*|.*\bflax_.*"
    r"|utils\.dummy_.*|utils\.fx|modeling_tf_.*|modeling_flax_.*|.*_tf|.*_flax)(\.|$)"
)
_COMMANDS = re.compile(r"(commands|cli)(\.|$)")
# Of the model files: those whose classes training scripts name, patch or subclass.
_MODELS = re.compile(
    r"^models\.(auto|llama|mistral|mixtral|qwen2|qwen2_vl|qwen2_5_vl|qwen2_moe|qwen3|qwen3_moe|gemma|gemma2|gemma3|phi|phi3"
    r"|gpt2|gpt_neox|opt|bloom|t5|bert|roberta|falcon)(\.|$)"
)
_CLASSES = {
    "trl": r"_?[A-Z]\w*",
    "peft": r"\w+(Config|Model|Mixin|Type)\w*",
    "accelerate": r"Accelerator|\w+(Config|Configuration|Plugin|Kwargs|State|Tracker|Handler|Type)",
    "transformers": r"\w*(Arguments|Trainer|Callback|ArgumentParser|Streamer|QuantizationConfig)|DataCollator\w+"
    r"|Trainer(State|Control)|CallbackHandler"
    r"|(BitsAndBytes|GPTQ|Awq|Aqlm|Hqq|TorchAo|Generation|Pre[Tt]rained|FineGrainedFP8|Mxfp4)Config"
    r"|PreTrainedModel|ModuleUtilsMixin|PreTrainedTokenizer(Base|Fast)?|SpecialTokensMixin|TokenizersBackend"
    r"|PythonBackend|GenerationMixin|PushToHubMixin|PeftAdapterMixin|_BaseAutoModelClass|Auto(Tokenizer|Config|Model\w*)"
    r"|StoppingCriteria\w*|EvalPrediction",
}
_FUNCTIONS = {
    "trl": r".*",
    "peft": r"(?!tuners\.).*",
    "accelerate": r".*",
    "transformers": r"(optimization|trainer\w*|pipelines|data\..*|hf_argparser|training_args\w*):.*",
}


@dataclass
class Release:
    """What one release has.

    `names`: module (relative, "" for the package itself) to the names bound there; `calls`: signatures by the plain
    name of a function or class, or `Class.method`; `bases` and `members` by the plain name of a class;
    `homes`: the module that defines a class; `requires`: lines of its metadata on libraries that matter.
    """

    library: str
    version: str
    date: str
    names: dict[str, set[str]] = field(default_factory=dict)
    calls: dict[str, Signature] = field(default_factory=dict)
    bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    requires: set[str] = field(default_factory=set)


class Wheel:
    """The modules of one wheel; parsed files are shared with other releases through `cache` (by name and checksum)."""

    def __init__(self, path: Path, cache: dict[tuple[str, int], ast.Module]) -> None:
        self.archive = zipfile.ZipFile(path)
        self.library, self.version = path.name.split("-")[:2]
        self.cache = cache
        self.infos = {}
        for info in self.archive.infolist():
            if info.filename.startswith(f"{self.library}/") and info.filename.endswith(".py"):
                parts = info.filename[len(self.library) + 1 : -3].split("/")
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                if not _SKIPPED.match(name) and not (self.library == "transformers" and _COMMANDS.match(name)):
                    self.infos[name] = info
        self.exported: dict[str, set[str]] = {}
        present = {(info.filename, info.CRC) for info in self.infos.values()}
        for key in set(cache) - present:  # of older releases; keeping all would take gigabytes
            del cache[key]

    def is_model(self, module: str) -> bool:
        """Whether the module is one of transformers' model files, which are read line by line."""
        return self.library == "transformers" and module.startswith("models.") and not module.startswith("models.auto")

    def text(self, module: str) -> str:
        return self.archive.read(self.infos[module]).decode("utf-8", "replace")

    def tree(self, module: str) -> ast.Module:
        info = self.infos[module]
        key = (info.filename, info.CRC)
        if key not in self.cache:
            self.cache[key] = ast.parse(self.text(module))
        return self.cache[key]

    def target(self, module: str, node: ast.ImportFrom) -> str | None:
        """The module of this library that an import names, relative to the package; None for another library's."""
        if not node.level:
            root, _, rest = (node.module or "").partition(".")
            return rest if root == self.library else None
        parts = module.split(".") if module else []
        package = parts if self.infos[module].filename.endswith("__init__.py") else parts[:-1]
        kept = package[: len(package) - (node.level - 1)]
        return ".".join([*kept, *(node.module.split(".") if node.module else [])])

    def exports(self, module: str) -> set[str]:
        """The names bound in a module, those that it imports from its own library included."""
        if module not in self.exported:
            self.exported[module] = set()  # what imports itself in a circle adds nothing
            found = self._in_lines(module) if self.is_model(module) else self._in_tree(module)
            self.exported[module] = {name for name in found if not name.startswith("__")}
        return self.exported[module]

    def public(self, module: str) -> set[str]:
        """What `from module import *` gives."""
        if module not in self.infos:
            return set()
        listed = re.search(r"^__all__\s*=\s*[\[(](.*?)[\])]", self.text(module), re.DOTALL | re.MULTILINE)
        if listed:
            return set(re.findall(r"[\"'](\w+)[\"']", listed[1]))
        return {name for name in self.exports(module) if not name.startswith("_")}

    def _in_lines(self, module: str) -> set[str]:
        text = self.text(module)
        found = set(re.findall(r"(?m)^(?:class|def)\s+(\w+)|^([A-Z][A-Z_0-9]+)\s*=", text))
        names = {one or two for one, two in found}
        if self.infos[module].filename.endswith("__init__.py"):
            for star in re.findall(r"(?m)^\s+from \.(\w+) import \*", text):
                names |= self.public(f"{module}.{star}")
            for listed in re.findall(r"(?ms)^_import_structure\b.*?=\s*(.*?[\]}])\s*$", text):
                names |= set(re.findall(r"[\"']([A-Z]\w*)[\"']", listed))
            for listed in re.findall(r"(?ms)^\s+from \.\w+ import (\([^)]*\)|[\w, ]+)", text):
                names |= set(re.findall(r"\w+", listed))
        return names

    def _in_tree(self, module: str) -> set[str]:
        found: set[str] = set()
        for node in statements(self.tree(module).body):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(part.id for one in targets for part in ast.walk(one) if isinstance(part, ast.Name))
                if any("_import_structure" in ast.unparse(one) for one in targets) and node.value is not None:
                    found |= _listed(node.value)
            elif isinstance(node, ast.Expr) and ast.unparse(node).startswith("_import_structure"):
                found |= _listed(node.value)
            elif isinstance(node, ast.ImportFrom):
                target = self.target(module, node)
                if target is None:
                    continue
                for alias in node.names:
                    found |= self.public(target) if alias.name == "*" else {alias.asname or alias.name}
        return found


def _listed(value: ast.expr) -> set[str]:
    """The names in `_import_structure`: strings inside of lists, not its keys."""
    lists = [part for part in ast.walk(value) if isinstance(part, ast.List)]
    items = [item for one in lists for item in one.elts if isinstance(item, ast.Constant)]
    return {item.value for item in items if isinstance(item.value, str)}


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those of every branch included, but of no function or class."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for part in ("body", "orelse", "finalbody"):
                yield from statements(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from statements(handler.body)


def read_wheel(path: Path, cache: dict[tuple[str, int], ast.Module]) -> Release:
    """Everything that is recorded of one release. ValueError for a file that isn't a wheel of a known library."""
    if path.name.split("-")[0] not in LIBRARIES:
        raise ValueError(f"{path}: not a wheel of {', '.join(LIBRARIES)}")
    wheel = Wheel(path, cache)
    times = [info.date_time for info in wheel.archive.infolist()]
    release = Release(wheel.library, wheel.version, "{:04}-{:02}-{:02}".format(*max(times)[:3]))
    for module in sorted(wheel.infos):
        if wheel.is_model(module) and not _MODELS.match(module):
            continue
        names = wheel.exports(module)
        release.names[module] = names
    top = {name for name in wheel.exports("") if not re.match(r"(TF|Flax|_)[A-Z_]?", name) or name.startswith("_Base")}
    release.names[""] = top
    _read_calls(wheel, release)
    release.requires = set(_requirements(wheel))
    return release


def _read_calls(wheel: Wheel, release: Release) -> None:
    classes = re.compile(rf"(?:{_CLASSES[wheel.library]})$")
    functions = re.compile(_FUNCTIONS[wheel.library])
    order = sorted(wheel.infos, key=lambda module: ("experimental" in module, module.count("."), module))
    for module in order:
        if wheel.is_model(module) or module.startswith("integrations"):
            continue
        imports = _imports(wheel, module)
        for node in statements(wheel.tree(module).body):
            if isinstance(node, ast.FunctionDef) and node.name not in release.calls:
                exported = node.name in release.names[""]
                if not node.name.startswith("_") and (exported or functions.match(f"{module}:{node.name}")):
                    release.calls[node.name] = function_signature(node)
            elif isinstance(node, ast.ClassDef) and classes.match(node.name):
                bases = tuple(imports.get(ast.unparse(base), ast.unparse(base)) for base in node.bases)
                own = f"{wheel.library}."
                plain = tuple(base.rpartition(".")[2] if base.startswith(own) else base for base in bases)
                if node.name in plain or node.name in release.homes:
                    continue  # a wrapper that only warns, or another class of that name
                calls, members = class_signatures(node)
                trainer = module.removesuffix("_config") + "_trainer"
                said = wheel.text(trainer) if trainer in wheel.infos else None
                constructor = calls[""]
                constructor.idle = {
                    name for name in constructor.idle if said is not None and not re.search(rf"\.{name}\b", said)
                }
                for name, call in calls.items():
                    release.calls[f"{node.name}.{name}" if name else node.name] = call
                release.bases[node.name] = tuple(base for base in plain if base != "object")
                release.members[node.name] = members
                release.homes[node.name] = module


def _imports(wheel: Wheel, module: str) -> dict[str, str]:
    """What the names of a module stand for: `trl.trainer.utils.pad`, `transformers.Trainer`."""
    found = {}
    for node in statements(wheel.tree(module).body):
        if isinstance(node, ast.ImportFrom):
            target = wheel.target(module, node)
            origin = f"{wheel.library}.{target}".rstrip(".") if target is not None else node.module
            for alias in node.names:
                found[alias.asname or alias.name] = f"{origin}.{alias.name}"
        elif isinstance(node, ast.ClassDef):
            found[node.name] = f"{wheel.library}.{module}.{node.name}"
    return found


def _requirements(wheel: Wheel) -> Iterator[str]:
    """Lines on what has to be installed with it; `[extra]` before those that an extra asks for."""
    (name,) = (name for name in wheel.archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
    data = Parser().parsestr(wheel.archive.read(name).decode("utf-8", "replace"), headersonly=True)
    if data["Requires-Python"]:
        yield f"python {data['Requires-Python'].replace(' ', '')}"
    for line in data.get_all("Requires-Dist") or []:
        what, _, marker = line.partition(";")
        found = re.fullmatch(r"([\w.-]+)(?:\[[^\]]*\])?\s*\(?([^)]*)\)?\s*", what.strip())
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        if found is None or "python_version" in marker or "platform" in marker:
            continue
        name, bounds = found[1].lower().replace("_", "-"), found[2].replace(" ", "")
        if extra is None:
            yield f"{name} {bounds}".strip()
        elif name in LIBRARIES and name != wheel.library and extra[1] in ("torch", "accelerate", "peft"):
            yield f"[{extra[1]}] {name} {bounds}".strip()

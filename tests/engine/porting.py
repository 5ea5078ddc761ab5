"""The whole harness: a text that must not change, and a text that must become another."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from porter.engine.packs.packs import load_packs
from porter.engine.packs.rule_modules import PACKAGE
from porter.engine.pipeline import port_module
from porter.port import Options, Port
from porter.source.parsing import parse_module

HEAD = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

rows = load_dataset('x', split='train')
"""
PLAIN = f"""{HEAD}trainer = SFTTrainer('Qwen/Qwen3-0.6B', args=SFTConfig('out'), train_dataset=rows)
trainer.train()
"""


def sft_script(
    before: str = "",
    *,
    imports: str = "",
    load: str = "",
    between: str = "",
    config: str = "",
    trainer: str = "",
    after: str = "trainer.train()",
) -> str:
    """A script of the usual parts: lines before the model, `between` it and the trainer, and after; `load`, `config`
    and `trainer` are further keywords of those calls, each with a comma in front.
    """
    return f"""\
{imports}
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

{before}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16"{load})
{between}
trainer = SFTTrainer(
    model,
    args=SFTConfig(output_dir="out", max_steps=5, report_to="none"{config}),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"){trainer},
)
{after}
"""


OTHER_TASK = sft_script(before="from transformers import AutoModelForSeq2SeqLM").replace(
    "AutoModelForCausalLM.from_pretrained", "AutoModelForSeq2SeqLM.from_pretrained"
)


def port(text: str | bytes, **options: object) -> Port:
    """The port of a text, without a file."""
    data = text if isinstance(text, bytes) else text.encode()
    return port_module(parse_module(data, "train.py"), Options(**options))  # type: ignore[arg-type]


def errors(found: Port) -> list[str]:
    """What is said to need a person."""
    return [each.message for each in found.findings if each.severity == "error"]


def rule_module(library: str, name: str) -> ModuleType:
    """The file of a built-in pack's rule, as porting runs it: `loading.checkpointing`, in a folder of the pack."""
    load_packs()
    return import_module(f"{PACKAGE.format(library)}.{name}")


def check_noop(text: str | bytes, **options: object) -> Port:
    """No edit is made: it isn't enough that the text comes out equal."""
    found = port(text, **options)
    assert found.edits == () and found.after == found.before
    assert found.data == (text if isinstance(text, bytes) else text.encode())
    return found


def check_becomes(
    text: str, *parts: str, gone: tuple[str, ...] = (), status: str = "ported", **options: object
) -> Port:
    """The port holds every one of `parts`, none of `gone`, and porting it changes nothing."""
    found = port(text, **options)
    for part in parts:
        assert part in found.after, f"{part!r} is not in\n{found.after}"
    for part in gone:
        assert part not in found.after, f"{part!r} is in\n{found.after}"
    assert found.status == status, found.findings
    check_noop(found.data)
    return found


def write(folder: Path, text: str, name: str = "train.py") -> Path:
    """A file of that text."""
    path = folder / name
    path.write_bytes(text.encode())
    return path

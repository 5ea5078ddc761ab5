"""The ids that reports name beside those of the packs: what the engine itself does. They can't be left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ... import __version__
from ...errors import InputError
from .pack import Pack
from .python_rule import SiteRule

if TYPE_CHECKING:
    from ..script.porting import Porting
    from ..script.sites import Site

PAGES = {
    "TP000": """The input: a file, an option or a pack that can't be worked with.

What it does: says what was found, where, and what to do; nothing is written, and the exit code is 2.
Why: a port of half an input would be a guess.
""",
    "TP001": """Imports: what the port uses comes in, what nothing uses any more goes.

What it does: adds the imports of the new code in the file's own groups and order, and takes out an import, an
assignment or a definition that only the replaced code used.
Why: the TPU machine need not have torch and TRL. A library of the GPU side that is still used is named as a finding.
""",
    "TP002": """Script metadata (PEP 723): the dependencies that the port has.

What it does: corrects the `# /// script` block that tools such as uv read.
Why: the block names what the source imports.
""",
    "TP003": """Install commands: the port's libraries instead of the GPU's.

What it does: in `!pip install`, `%pip install` and `get_ipython().system("pip install ...")`, the GPU's libraries
become `tpu-port[tpu]` once, and pins of libraries that it brings go; all other words stay, and so does a library that
the port still imports.
Why: a notebook installs what it runs; with the GPU's pins, the TPU's libraries would not go in.
""",
    "TP004": """Training that no rule reads: another library's trainer, a backward pass without a loop, a text.

What it does: names it, and leaves the file as it is; the exit code is 1.
Why: silence would be taken for a file that trains nothing.
Use instead: a folder is ported as a whole, so that a class of the project that extends TRL's trainer is seen:
`tpu-port DIR -o OUT`.
""",
    "TP006": """Assertions of the installed release: they go.

What it does: takes out `assert` statements about `transformers.__version__`, `transformers._import_structure` and the
like of the libraries of the GPU's side.
Why: the TPU machine has today's transformers and no TRL; the port does what the script's own release did.
Example: `assert "LlamaTokenizer" in transformers._import_structure["models.llama"]`
""",
    "TP008": """Conditions that ask a release what it takes: decided as the release that the script is read as.

What it does: `if "tokenizer" in inspect.signature(SFTTrainer.__init__).parameters: ... else: ...` keeps the branch that
the dated release takes; `hasattr(SFTConfig, "max_length")`, `__dataclass_fields__` and `fields()` likewise. Of
`try: trainer = SFTTrainer(..., max_seq_length=512)` and `except TypeError: trainer = ...` the second stays, with an
info, where the release takes no such keyword. `try: from trl import SFTConfig` and `except ImportError:` of a release
that hasn't the class yet is an error: the port has it, and would go the other way.
Why: the TPU machine has no TRL to ask, and one release decides everything in the port.
Example: `if "processing_class" in inspect.signature(SFTTrainer.__init__).parameters:`
Safety: exact for the release that the report names; `--source-trl` names another one.
""",
    "TP316": """model.generation_config.eos_token_id = ... → `rt.generation_config(model).eos_token_id = ...`.

What it does: reads and sets the settings of Tunix's model. Where the script saves adapters alone and samples nothing,
a line that sets one goes: PEFT saves no such file. `model.config.pad_token_id = ...` becomes `rt.model_config(model)`'s
where a whole model is saved, and what is read of `model.config` is read of that: transformers' config of the model.
Why: they are saved in generation_config.json, and end what samples from the model.
Example: `trainer.model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids("<|im_end|>")`
Safety: exact.
""",
    "TP535": """`if trainer.is_world_process_zero():` around what all hosts do together: its lines are for all of them.

What it does: where such a condition holds a call that saves, merges, trains or samples, its lines are moved out of it,
or the condition loses that part. Each of these calls writes files and prints on the first host alone.
Why: a host has a part of the weights only, so that all must take part; under the condition they wait for each other.
Example: `if trainer.is_world_process_zero(): trainer.save_model(output_dir)`
Use instead: `rt.save_model(model, output_dir)`, on every host
Safety: exact; other lines under the condition run on every host too.
""",
    "TP198": """A secret in the source: it is masked in whatever is said of the script, and named.

What it does: nothing to the port, which keeps the user's line; the report, the recipe and messages have `hf_***`.
Why: reports are pasted into issues and recipes are committed.
""",
    "TP199": """A mistake of tpu-port, or of a pack's rule: the file stays as it is, and the line is named.

What it does: refuses the file where two rules want the same text or a rule ends with an error.
Why: one script that meets a mistake must not end the port of a folder, and half a port is worse than none.
Use instead: `TPU_PORT_TRACEBACK=1` shows where it was made; please report it.
""",
    "TP007": """Names that a port's machine doesn't have: `datasets.load_metric`, `google.colab`.

What it does: names the import, with what does the same; one that nothing uses goes.
Why: a port runs with today's huggingface_hub and datasets, and ends at the import. A module of Colab or Kaggle is there
in that service alone, which has TPUs too: a warning.
Example: `from datasets import load_metric`
Use instead: `import evaluate`, and `evaluate.load("rouge")`
Safety: an import in a `try` with a handler stays as it is; so does a service's below an `if`.
""",
    "TP191": """A name that the script reads and nothing in it binds.

What it does: names the first line that stays and reads it, as a warning; the line stays as it is.
Why: the GPU run ends with a NameError where that line runs, and so does the port.
Example: `print(f"group_by_length: {group_by_length}")`, behind a function that has no such parameter any more
Safety: no warning where the file takes all names of another (`from x import *`), or makes names as it runs (`exec`).
""",
    "TP190": """Something for a person to decide: a use of the trainer or the model that no rule answers.

What it does: leaves the line as it is, names it in the report and puts a `# TODO(tpu-port TP190)` above it.
Why: Tunix's trainer and model have other methods than transformers', and a guess would run and be wrong.
Use instead: Tunix's own way, or a rule in a pack of your own (`tpu-port rules new`).
""",
}


def engine_pack() -> Pack:
    """The engine's own ids in the form of a pack, for lists and pages."""
    here = Path(__file__)
    rules = tuple(SiteRule(id, doc.splitlines()[0], doc.strip(), (), _never, here) for id, doc in PAGES.items())
    return Pack("engine", __version__, here.parent, {}, (), rules, (), ())


def check_names(names: Sequence[str], packs: Sequence[Pack]) -> None:
    """InputError when one of `--select` and `--ignore` begins the id of no rule."""
    for name in names:
        if not any(rule.id.startswith(name) for pack in packs for rule in pack.every_rule):
            raise InputError(
                f"there is no rule {name!r} to select or ignore", fix="`tpu-port rules list` names them all"
            )


def _never(site: Site, porting: Porting) -> None:
    raise AssertionError("the engine's own ids match no site")

"""SFTTrainer without a length: TRL before 0.15 cut at 1024 tokens, 0.9 at the tokenizer's own limit.

    SFTConfig(output_dir="out")    # max_seq_length=None

The port's batches are cut where that release cut them.
"""

from __future__ import annotations

from dataclasses import replace

from porter.packs.api import Phase, Value, step
from porter.packs.script import plain_version, version_key
from porter.packs.training import Training, table_of

PART_OF = "TP102"


@step(Phase.READ, of="trainer", reads=("script values",), fills=("data.max_length",))
def read_unset_length(porting: Training) -> None:
    """TRL before 0.15 cut at 1024 tokens when no length was given, 0.9 at the tokenizer's own limit."""
    assert porting.trainer is not None
    value, version = porting.value("data.max_length"), plain_version(porting.versions.get("trl", ""))
    if table_of(porting, porting.trainer).kind != "sft":
        return
    if value is None or not version or version_key(version) >= (0, 15) or (0, 9) <= version_key(version) < (0, 10):
        return
    if value.code.endswith(" else None)"):  # given by condition
        code = f"{value.code.removesuffix('None)')}1024)"
        porting.fill({"data.max_length": replace(value, code=code, text=code)})
    if not value.is_literal(None):
        return
    porting.fill({"data.max_length": Value("default", "1024", value.origin)})
    for source in ("SFTTrainer.max_seq_length", "SFTConfig.max_seq_length"):
        porting.change_fate(source, fate="changed", reason=f"TRL {version} takes 1024 for None")

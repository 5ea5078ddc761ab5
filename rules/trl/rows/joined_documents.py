"""Packed rows whose documents see each other: TRL 0.19 to 0.23.0 gave their places to flash attention alone.

SFTConfig(packing=True)    # under sdpa, which transformers takes by itself

The port's batches do as that release did; the rows of a micro-batch, which TRL runs together as well, those of an
evaluation too, stay apart.
"""

from __future__ import annotations

from porter.packs.api import Origin, Phase, Value, step
from porter.packs.runtime import trl_release
from porter.packs.script import plain_version
from porter.packs.training import Training, table_of

PART_OF = "TP102"
PLACE = "data.attention"
FLASH = "flash_attention_2"
FIX = f'On a GPU attn_implementation="{FLASH}" parts them; in the port attention="{FLASH}" at its batches does.'


@step(
    Phase.READ,
    of="trainer",
    reads=("script values", "model", "model.init_kwargs", "data.packing", "rows_by"),
    fills=(PLACE,),
)
def read_attention(porting: Training) -> None:
    """The source's attention where it decides what a packed row's documents see, and what a release made of it."""
    site, version = porting.trainer, plain_version(porting.versions.get("trl", ""))
    if site is None or porting.loop is not None or table_of(porting, site).kind != "sft" or porting.rows_by:
        return
    packs = (
        porting.known("data.packing", False) is not False
        and porting.known("data.packing_strategy", None) != "wrapped"  # whose documents all releases run together
    )
    runs_together = packs or porting.known("data.padding_free", False) is not False
    if not version or not trl_release(version).joins_documents(None):
        return
    given, evaluates = _attention(porting), site.argument("eval_dataset") is not None
    if not runs_together:
        if evaluates and porting.known("data.eval_packing") is True and given is not None and "flash" in given.code:
            _say_begun_anew(porting, version)
        return
    if given is not None and given.known and "flash" in str(given.literal):
        porting.fill({PLACE: Value("literal", repr(given.literal), Origin("", 0, 0, site.rule))})
        for name in (".attn_implementation", ".use_flash_attention_2"):
            porting.change_fate(name, reason="XLA's kernel; a packed row's documents are parted, as they are under it")
        return
    if given is not None and not given.known:
        porting.fill({PLACE: Value("expression", given.text, Origin("", 0, 0, site.rule))})
    sizes = ("batch.per_device", "batch.eval_per_device") if evaluates else ("batch.per_device",)
    is_alone = all(porting.known(size, None) == 1 for size in sizes)  # the row of its micro-batch
    seen = f"Without flash attention the documents of a packed row see each other in TRL {version}, and in the port."
    others = f"Without flash attention the rows of a micro-batch see each other in TRL {version}; the port parts them."
    if packs and is_alone:
        porting.find(PART_OF, "info", seen, FIX, site.line, site.column)
    elif not is_alone:
        message = f"{seen} So do the rows of a micro-batch; the port parts these." if packs else others
        porting.find(PART_OF, "warning", message, FIX, site.line, site.column)


def _say_begun_anew(porting: Training, version: str) -> None:
    """An evaluation that alone is packed: with flash attention its documents have places of their own, and no more."""
    assert porting.trainer is not None
    message = (
        f"eval_packing=True without packing: in TRL {version} the documents of a packed row see each other, and under "
        "flash attention each begins at position 0; in the port their positions go on, and eval_loss is another."
    )
    fix = "Give packing=True, too, or eval_packing=False, on both sides."
    porting.find(PART_OF, "error", message, fix, porting.trainer.line, porting.trainer.column)


def _attention(porting: Training) -> Value | None:
    """What the model is loaded with; None where nothing says it."""
    if porting.model is not None:
        given = porting.model.argument("attn_implementation")
        older = porting.model.argument("use_flash_attention_2")
        if given is None and older is not None and older.value.is_literal(True):
            return Value("literal", repr(FLASH), older.value.origin)
        return given.value if given is not None else None
    held = porting.known("model.init_kwargs", None)
    name = held.get("attn_implementation") if isinstance(held, dict) else None
    return Value("literal", repr(name), None) if isinstance(name, str) else None

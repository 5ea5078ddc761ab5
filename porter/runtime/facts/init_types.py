"""The `dtype` that TRL puts into `model_init_kwargs` beside what a script gives there.

Transformers from 4.56 on prefers `dtype` to the older `torch_dtype` of the same call.
"""

from __future__ import annotations

from .field_tables import version_key


def fills_type(trl: str | None, *, left_alone: bool) -> str:
    """The `dtype` that TRL `trl` (None: the newest) gives from_pretrained where `model_init_kwargs` have none.

    `left_alone`: by a trainer that isn't TRL's common way to load, ORPOTrainer and CPOTrainer. "" where none is.
    """
    release = version_key(trl) if trl else None
    if left_alone:
        return "auto" if release is None or release >= (0, 26) else ""
    return "float32" if release is None or release >= (0, 27) else ""

"""What Unsloth mends of an older TRL beside transformers 5."""

from __future__ import annotations

from typing import Any


def without_versions(names: dict[str, Any]) -> None:
    """Make the answers that TRL keeps of which packages there are a bool each, as Unsloth does.

    transformers 5.3 answers an older TRL with a pair (`(False, None)`), which is true: it imports what isn't there.
    """
    pairs = {name: value for name, value in names.items() if name.endswith("_available") and isinstance(value, tuple)}
    names.update({name: bool(value[0]) for name, value in pairs.items()})


def without_hub_token(args: Any) -> Any:
    """`args`, whose `to_dict` lets `push_to_hub_token` be taken out where transformers 5 has none.

    TRL makes its config of plain arguments so; of a config of its own it asks nothing.
    """
    import trl

    if args is None or isinstance(args, trl.SFTConfig):
        return args
    fields = args.to_dict
    args.to_dict = lambda: _Fields(fields())
    return args


class _Fields(dict[str, Any]):
    def pop(self, key: str, *default: Any) -> Any:
        return super().pop(key, *(default or (None,) if key == "push_to_hub_token" else default))

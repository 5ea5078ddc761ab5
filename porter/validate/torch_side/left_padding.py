"""Rows that are padded on the left: the last padding predicts their first token, and nothing else is as it should be.

Such a position sees no token at all, so that torch's attention makes something of it that depends on its implementation
(sdpa lets it see the whole row, what follows included). A port has no padding in front of a row and doesn't train that
token; neither does the source under `validate`, which says so.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, MutableMapping
from typing import Any

IGNORED = -100
NOTE = "the source pads rows on the left, whose last padding predicts the first token: it was trained on neither side"


def concerns(trainer: Any) -> bool:
    """Whether a trainer's port has rows without padding: TRL's; of transformers' own Trainer the padding stays."""
    return any(kind.__name__ == "SFTTrainer" for kind in type(trainer).__mro__)


def untrain_firsts(inputs: Any) -> bool:
    """Set the label of each first token behind left padding to -100; `labels` and `attention_mask` are (B, T).

    Returns whether there was such a label. A trainer that samples is given rows, which have no labels yet.
    """
    if not isinstance(inputs, MutableMapping):
        return False
    labels, mask = inputs.get("labels"), inputs.get("attention_mask")
    if labels is None or mask is None or mask.ndim != 2 or labels.shape != mask.shape or mask.shape[1] < 2:
        return False
    firsts = (mask[:, 1:] != 0) & (mask[:, :-1] == 0) & (mask[:, :-1].cumsum(dim=1) == 0)
    trained = firsts & (labels[:, 1:] != IGNORED)
    if not bool(trained.any()):
        return False
    labels = labels.clone()
    labels[:, 1:][trained] = IGNORED
    inputs["labels"] = labels
    return True


AVERAGED = (
    "{} before transformers 4.53: padding in front of a row takes the mean of its values on both sides, as in torch's "
    "forward pass; eager's gradient of it, too, not sdpa's, which is wrong (norms of 1e8)"
)
OF_GEMMA = AVERAGED.format("Gemma 2 and 3")
OF_CPU = AVERAGED.format("on the CPU, on which the script trains,")
HIDDEN = tuple(f"os.environ['CUDA_VISIBLE_DEVICES'] = '{devices}'" for devices in ("", "-1"))
NEVER_UNMASKED = ("gemma2", "gemma3", "gemma3_text")


class Seeing:
    """torch's attention gives positions that see no token all of their row, as transformers had it on GPUs until 4.53.

    It did so where the mask was on one (`AttentionMaskConverter._unmask_unattended`); on a CPU such a position took the
    mean of all values, with a gradient that torch makes hundreds of times too large. From 4.53 on masks are bool.
    Models of Gemma 2 and 3 never had that call: theirs take the mean, with the gradient of eager attention. So do those
    of a script that trains `on_cpu`, whatever the machine has.
    """

    def __init__(self, note: Callable[[str], None], *, on_cpu: bool = False) -> None:
        import torch

        self._note = note
        self._averages = OF_CPU if on_cpu else ""
        original = torch.nn.functional.scaled_dot_product_attention

        @functools.wraps(original)
        def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
            if attn_mask is None or not attn_mask.dtype.is_floating_point:
                return original(query, key, value, attn_mask, *args, **kwargs)
            blind = (attn_mask == torch.finfo(attn_mask.dtype).min).all(dim=-1, keepdim=True)
            seen = original(query, key, value, attn_mask.masked_fill(blind, 0.0), *args, **kwargs)
            if not self._averages or not bool(blind.any()):
                return seen
            self._note(self._averages)
            return torch.where(blind, eager(query, key, value, attn_mask, kwargs.get("scale")), seen)

        torch.nn.functional.scaled_dot_product_attention = attention

    def loaded(self, model: Any) -> None:
        """Take note of the family of a model that the script has loaded."""
        if getattr(getattr(model, "config", None), "model_type", None) in NEVER_UNMASKED:
            self._averages = OF_GEMMA


def trains_on_cpu(script: str) -> bool:
    """Whether a script's text keeps its training on the CPU: `no_cuda=True`, `CUDA_VISIBLE_DEVICES` that hides all, or
    `device_map="cpu"` where nothing speaks of CUDA."""
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        return False
    told = [word for node in ast.walk(tree) if isinstance(node, ast.Call) for word in node.keywords]
    mapped = () if "cuda" in script.lower() else ("'cpu'", "{'': 'cpu'}")
    return any(
        (word.arg in ("use_cpu", "no_cuda") and ast.unparse(word.value) == "True")
        or (word.arg == "device_map" and ast.unparse(word.value) in mapped)
        for word in told
    ) or any(ast.unparse(node) in HIDDEN for node in tree.body)


def eager(query: Any, key: Any, value: Any, attn_mask: Any, scale: float | None) -> Any:
    """Attention as transformers computes it itself; (B, N, T, H), (B, K, S, H), (B, 1, T, S)."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return (scores + attn_mask).softmax(dim=-1) @ value

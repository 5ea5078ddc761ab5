"""flash_attn's and xformers' functions by torch's own scaled dot products: the same values up to rounding."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

ATTENTION_OUT = ("o_proj", "out_proj", "c_proj", "dense", "wo")  # the layer behind a model's attention
OLDER = ("use_flash_attention_2", "use_flash_attention")


def modules() -> dict[str, Callable[[], dict[str, Any]]]:
    padding = {"unpad_input": unpad_input, "pad_input": pad_input, "index_first_axis": index_first_axis}
    functions = {
        "flash_attn_func": flash_attn_func,
        "flash_attn_qkvpacked_func": flash_attn_qkvpacked_func,
        "flash_attn_kvpacked_func": flash_attn_kvpacked_func,
        "flash_attn_varlen_func": flash_attn_varlen_func,
        "flash_attn_varlen_qkvpacked_func": flash_attn_varlen_qkvpacked_func,
        "flash_attn_unpadded_func": flash_attn_varlen_func,  # the names of flash_attn 1
        "flash_attn_unpadded_qkvpacked_func": flash_attn_varlen_qkvpacked_func,
    }
    return {
        "flash_attn": lambda: {"__version__": "2.8.3", **functions},
        "flash_attn.flash_attn_interface": lambda: functions,
        "flash_attn.bert_padding": lambda: padding,
        "flash_attn.losses.cross_entropy": _losses,
        "flash_attn_interface": lambda: functions,
        "xformers": lambda: {"__version__": "0.0.30"},
        "xformers.ops": lambda: {
            "memory_efficient_attention": memory_efficient_attention,
            "LowerTriangularMask": LowerTriangularMask,
            "fmha": None,
        },
    }


def _losses() -> dict[str, Any]:
    import torch

    class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
        def __init__(self, *args: Any, inplace_backward: bool = False, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    return {"CrossEntropyLoss": CrossEntropyLoss}


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    **kwargs: Any,
) -> Any:
    """Attention of q (batch, queries, heads, size) to k and v (batch, keys, heads or fewer, size); q's shape.

    The last query sees the last key where `causal`; `window_size` counts keys to the left and right. Dropout is 0.
    """
    import torch

    queries, keys, shared = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))
    k, v = (part.repeat_interleave(shared, dim=1) if shared > 1 else part for part in (k, v))
    left, right = window_size[0], 0 if causal else window_size[1]
    place = torch.arange(queries)[:, None] + keys - queries
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if right >= 0:
        seen &= torch.arange(keys)[None, :] <= place + right
    if left >= 0:
        seen &= torch.arange(keys)[None, :] >= place - left
    scores = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=softmax_scale)
    return scores.transpose(1, 2)


def flash_attn_qkvpacked_func(qkv: Any, *args: Any, **kwargs: Any) -> Any:
    """`flash_attn_func` of (batch, length, 3, heads, size)."""
    return flash_attn_func(*qkv.unbind(2), *args, **kwargs)


def flash_attn_kvpacked_func(q: Any, kv: Any, *args: Any, **kwargs: Any) -> Any:
    """`flash_attn_func` with kv of (batch, keys, 2, heads, size)."""
    return flash_attn_func(q, *kv.unbind(2), *args, **kwargs)


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Attention within each of the rows that lie one after the other: q (tokens, heads, size), row starts in cu_*."""
    import torch

    starts = zip(itertools.pairwise(cu_seqlens_q.tolist()), itertools.pairwise(cu_seqlens_k.tolist()), strict=True)
    rows = [flash_attn_func(q[None, a:b], k[None, c:d], v[None, c:d], *args, **kwargs)[0] for (a, b), (c, d) in starts]
    return torch.cat(rows)


def flash_attn_varlen_qkvpacked_func(
    qkv: Any, cu_seqlens: Any, max_seqlen: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """`flash_attn_varlen_func` of (tokens, 3, heads, size)."""
    return flash_attn_varlen_func(*qkv.unbind(1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **kwargs)


def index_first_axis(rows: Any, indices: Any) -> Any:
    return rows[indices]


def unpad_input(hidden: Any, mask: Any, *args: Any) -> Any:
    """The tokens that `mask` (batch, length) keeps, their places, the rows' starts and the longest row."""
    import torch

    lengths = mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(mask.flatten(), as_tuple=False).flatten()
    starts = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    return hidden.flatten(0, 1)[indices], indices, starts, int(lengths.max())


def pad_input(hidden: Any, indices: Any, batch: int, length: int) -> Any:
    """The reverse of `unpad_input`: (batch, length, ...), zeros elsewhere."""
    padded = hidden.new_zeros((batch * length, *hidden.shape[1:]))
    padded[indices] = hidden
    return padded.unflatten(0, (batch, length))


class LowerTriangularMask:
    """xformers' causal mask."""


def memory_efficient_attention(
    query: Any, key: Any, value: Any, attn_bias: Any = None, p: float = 0.0, scale: float | None = None, **kwargs: Any
) -> Any:
    """xformers' attention of (batch, length, heads, size), or of (batch, length, size)."""
    import torch

    flat = query.dim() == 3
    q, k, v = (part[:, :, None] if flat else part for part in (query, key, value))
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))
    causal = isinstance(attn_bias, LowerTriangularMask) or attn_bias is LowerTriangularMask
    found = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=None if causal else attn_bias, is_causal=causal, scale=scale
    ).transpose(1, 2)
    return found[:, :, 0] if flat else found


def is_asked_for(kwargs: dict[str, Any]) -> bool:
    """Whether the keywords of a `from_pretrained`, or the config among them, name flash attention."""
    named = (kwargs.get("attn_implementation"), getattr(kwargs.get("config"), "_attn_implementation", None))
    return any("flash" in str(name) for name in named) or any(kwargs.get(name) for name in OLDER)


def part_rows(collator: Any, config: Any) -> None:
    """Let rows that TRL 0.19 to 0.23.0 runs together be apart, whose places it gives to flash attention alone.

    The model's own attention parts them by their places where it keeps no cache.
    """
    if getattr(collator, "padding_free", False) and getattr(collator, "return_position_ids", None) is False:
        collator.return_position_ids = True
        if config is not None:
            config.use_cache = False


def leave_padding_out(model: Any) -> None:
    """Let attention give zeros at padding, as flash attention does, which leaves its queries out with its keys."""
    masks: list[Any] = [None]

    def keep(module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        masks[0] = kwargs.get("attention_mask")

    def hide(module: Any, args: tuple[Any, ...]) -> Any:
        mask = masks[0]
        if mask is None or mask.ndim != 2 or args[0].shape[:2] != mask.shape:
            return None
        return (args[0] * (mask != 0)[..., None].to(args[0].dtype), *args[1:])

    model.register_forward_pre_hook(keep, with_kwargs=True)
    for name, module in model.named_modules():
        around, last = (["", *str(name).split(".")])[-2:]
        if last in ATTENTION_OUT and ("attn" in around or "attention" in around):
            module.register_forward_pre_hook(hide)


def without_kernels(kwargs: dict[str, Any], note: Callable[[str], None]) -> None:
    """Take a GPU's attention out of the keywords of a `from_pretrained`, older names included."""
    older = [kwargs.pop(name, False) for name in OLDER]
    if any(older):
        note("flash attention needs a GPU: the model's own attention computes the same on the CPU")
    if kwargs.get("attn_implementation") == "sdpa":
        return
    config = kwargs.get("config")
    for name in ("_flash_attn_2_enabled", "use_flash_attn"):
        if getattr(config, name, False):
            setattr(config, name, False)

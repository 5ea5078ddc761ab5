"""A model family as data: which Hugging Face layer is which Tunix parameter, and on which meshes it fits.

One TOML table a family (rules/models) drives LoRA target names, weight loading, adapter exchange and mesh
checks. This module expands a table for one model's sizes; `families` reads and finds them. Neither needs JAX or torch,
so that the porter can ask about a model it has never loaded.

A row [[linear]] or [[tensor]] of a table: `hf` below `hf_layer` (`scope` "model": below `hf_model`, "root": as it
stands) is `tunix` below `tunix_layer`, parameter `weight`. `shape_hf` and `shape_tunix` name sizes; products are split
and the axes put in Tunix's order; `slot` of `slots` says where in a fused parameter. `when` is a condition on sizes,
`layers` one attention kind. `sharding` names a mesh axis for each Tunix axis, "tp" not where `no_tp_when` holds.
`unused_when_shared`: Gemma 4's layers that take other layers' keys and values have none of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

Sizes = dict[str, Any]

# Name in the tables -> key of a model's config.json.
SIZES = {
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "embed": "hidden_size",
    "hidden": "intermediate_size",
    "vocab": "vocab_size",
    "tied": "tie_word_embeddings",
    "window": "sliding_window",  # of local layers
    # Gemma 4: global layers have their own heads, the last layers share keys and values, per-layer inputs.
    "global_kv_heads": "num_global_key_value_heads",
    "global_head_dim": "global_head_dim",
    "k_eq_v": "attention_k_eq_v",
    "kv_shared": "num_kv_shared_layers",
    "wide_shared": "use_double_wide_mlp",
    "ple": "hidden_size_per_layer_input",
}


class UnknownFamily(ValueError):
    """The model's architecture has no family table, or Tunix cannot compute this member of the family."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint and its place in the Tunix model.

    `shape_hf` split at its products gives `split`; transposed by `order` it is the Tunix tensor, or, when
    `slots` > 1, element `slot` along the first axis of it. `shape_tunix` and `sharding` are the whole Tunix
    tensor's. `unused`: Tunix has the parameter and never reads it (keys and values of KV-shared layers).
    `buffer`: it is loaded and never trained.
    """

    hf: str
    tunix: str
    shape_hf: tuple[int, ...]
    shape_tunix: tuple[int, ...]
    split: tuple[int, ...]
    order: tuple[int, ...]
    axes: tuple[str, ...]
    sharding: tuple[str, ...]
    slot: int = 0
    slots: int = 1
    unused: bool = False
    buffer: bool = False


@dataclass(frozen=True)
class Linear:
    """A linear layer: the Hugging Face module `hf` is `tensor.slot` of parameter `weight` of Tunix module `tunix`.

    `layer` is the decoder layer's index, None outside the layers; `name` is the Hugging Face name below the
    layer ("self_attn.k_proj"); `hf` the full dotted module name, as PEFT sees it; `tunix` the path with
    slashes, as qwix sees it; `kind` is "local" or "global" attention, "" where the family has one kind.
    """

    layer: int | None
    name: str
    hf: str
    tunix: str
    weight: str
    kind: str
    tensor: Tensor

    @property
    def slot(self) -> int:
        return self.tensor.slot

    @property
    def slots(self) -> int:
        """Hugging Face layers fused into this Tunix parameter; 1 when it stands alone."""
        return self.tensor.slots

    @property
    def shape_hf(self) -> tuple[int, ...]:
        """(out, in), as torch.nn.Linear.weight has it."""
        return self.tensor.shape_hf

    @property
    def shape_tunix(self) -> tuple[int, ...]:
        """The whole Tunix parameter's shape, the slots' axis first when fused."""
        return self.tensor.shape_tunix


@dataclass(frozen=True)
class Family:
    """A family table. `table` is the TOML as read; the rest are the keys that other modules ask for."""

    name: str
    architectures: tuple[str, ...]
    model_types: tuple[str, ...]
    module: str
    model_class: str
    compute_dtype: bool
    packing: bool
    table: Mapping[str, Any] = field(repr=False, hash=False, compare=False)
    # Tensors and linears of models whose sizes were asked for: a port asks for those of every size, several times.
    _known: dict[str, tuple[Any, ...]] = field(default_factory=dict, init=False, repr=False, hash=False, compare=False)

    def sizes(self, config: Mapping[str, Any]) -> Sizes:
        """Sizes of one model from the contents of its config.json (a multimodal one's `text_config` is used)."""
        text = text_config(config)
        known = {**self.table["defaults"], **{k: v for k, v in text.items() if v is not None}}
        sizes: Sizes = {name: known[key] for name, key in SIZES.items() if key in known}
        architectures = config.get("architectures") or []
        sizes["multimodal"] = any(a in self.table.get("multimodal", []) for a in architectures)
        if "text_config" in config and config.get("tie_word_embeddings") is not None:
            sizes["tied"] = config["tie_word_embeddings"]
        if text.get("layer_types"):
            sizes["kinds"] = tuple("local" if t == "sliding_attention" else "global" for t in text["layer_types"])
        return self.complete(sizes)

    def complete(self, sizes: Mapping[str, Any]) -> Sizes:
        """`sizes` with what follows from them: head_dim, the attention kind of each layer, Gemma 4's extras."""
        full: Sizes = {"tied": False, "multimodal": False, "k_eq_v": False, "kv_shared": 0, "wide_shared": False}
        full.update({"ple": 0, **sizes})
        full.setdefault("kv_heads", full["heads"])
        full.setdefault("head_dim", full["embed"] // full["heads"])
        full.setdefault("global_head_dim", full["head_dim"])
        # transformers reads num_global_key_value_heads for k_eq_v models only
        if not full["k_eq_v"] or full.get("global_kv_heads") is None:
            full["global_kv_heads"] = full["kv_heads"]
        if "kinds" not in full:
            pattern = full.get("pattern", self.table.get("pattern", 1))
            full["kinds"] = tuple("local" if (i + 1) % pattern else "global" for i in range(full["layers"]))
        return full

    def known_sizes(self, hub_id: str) -> Sizes | None:
        """Sizes of a Hub id that the table lists, else None (its config.json then decides, at run time)."""
        for pattern, sizes in self.table.get("sizes", {}).items():
            if fnmatch(hub_id.lower(), pattern):
                return self.complete({"tied": self.table["defaults"].get("tie_word_embeddings", False), **sizes})
        return None

    def default_targets(self, model_type: str) -> tuple[str, ...] | str | None:
        """PEFT's target_modules for a LoraConfig that names none; a string is a regex, None is PEFT's error."""
        found = self.table["peft_default"].get(model_type)
        return tuple(found) if isinstance(found, list) else found

    def linears(self, model: Mapping[str, Any]) -> list[Linear]:
        """Every linear layer that PEFT could adapt, in layer order. `model`: sizes, or config.json's contents."""
        sizes = self.sizes_of(model)
        key = f"linears {sorted(sizes.items())}"
        if key not in self._known:
            self._known[key] = tuple(self._linears(sizes))
        return [*self._known[key]]

    def _linears(self, sizes: Mapping[str, Any]) -> Iterator[Linear]:
        for (row, i, kind), tensor in zip(self._rows("linear", sizes), self._tensors("linear", sizes), strict=True):
            if tensor.unused:
                continue
            hf, tunix = tensor.hf.removesuffix(".weight"), tensor.tunix.rpartition("/")[0]
            yield Linear(i, row["hf"], hf, tunix, row["weight"], kind, tensor)

    def tensors(self, model: Mapping[str, Any]) -> list[Tensor]:
        """Every tensor of the text model. `model`: sizes, or config.json's contents."""
        sizes = self.sizes_of(model)
        return [*self._tensors("linear", sizes), *self._tensors("tensor", sizes)]

    def _tensors(self, which: str, sizes: Mapping[str, Any]) -> tuple[Tensor, ...]:
        key = f"{which} {sorted(sizes.items())}"
        if key not in self._known:
            self._known[key] = tuple(self._tensor(row, i, sizes) for row, i, _ in self._rows(which, sizes))
        return self._known[key]

    def problems(self, config: Mapping[str, Any]) -> list[str]:
        """What this config.json asks for and Tunix's implementation of the family does not compute."""
        text, sizes = text_config(config), self.sizes(config)
        known = {**self.table["defaults"], **text, **rope(config)}
        if "text_config" in config:
            known["tie_word_embeddings"] = sizes["tied"]
        found = []
        for key, allowed in self.table.get("must_be", {}).items():
            values = [_text(sizes[a]) if a in sizes else a for a in allowed]
            if _text(known.get(key)) not in values:
                found.append(f"{key} is {_text(known.get(key))}, Tunix computes {' or '.join(values)}")
        return found

    def sizes_of(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Complete sizes from sizes, complete or not, or from config.json's contents."""
        if "kinds" in model:
            return model
        is_config = "num_hidden_layers" in model or "text_config" in model or "architectures" in model
        return self.sizes(model) if is_config else self.complete(model)

    def _rows(self, which: str, sizes: Mapping[str, Any]) -> Iterable[tuple[Mapping[str, Any], int | None, str]]:
        """Rows of the table that exist in a model of these sizes: the layers' in layer order, then the others."""
        rows = [row for row in self.table.get(which, []) if _holds(row.get("when", ""), sizes)]
        kinds = set(sizes["kinds"])
        for i, kind in enumerate(sizes["kinds"]):
            for row in rows:
                if row.get("scope", "layer") == "layer" and row.get("layers", kind) == kind:
                    yield row, i, kind if len(kinds) > 1 else ""
        for row in rows:
            if row.get("scope", "layer") != "layer":
                yield row, None, ""

    def _tensor(self, row: Mapping[str, Any], i: int | None, sizes: Mapping[str, Any]) -> Tensor:
        shared = i is not None and i >= sizes["layers"] - sizes["kv_shared"]
        slots = row.get("slots", 1)
        here = {**sizes, "slots": slots, "1": 1}
        if shared and sizes["wide_shared"]:
            here["hidden"] = 2 * sizes["hidden"]
        suffix = "_multimodal" if sizes["multimodal"] else ""
        scope = row.get("scope", "layer")
        above = {"root": "", "model": self.table.get("hf_model" + suffix, "model") + "."}.get(
            scope, self.table.get("hf_layer" + suffix, self.table["hf_layer"]).format(i=i) + "."
        )
        tunix = row["tunix"] if scope != "layer" else self.table["tunix_layer"].format(i=i) + "/" + row["tunix"]
        hf_axes = row.get("shape_hf") or row["shape"]
        axes = row.get("shape_tunix") or row["shape"]
        # A plain `shape` is taken as it is; only a linear's products are split into Tunix's axes.
        factors = [a for product in hf_axes for a in product.split("*")] if "shape_hf" in row else list(hf_axes)
        own = [a for a in axes if a != "slots"]
        sharding = tuple(row.get("sharding", [""] * len(axes)))
        if _holds(row.get("no_tp_when", "never"), sizes):
            sharding = tuple("" if axis == "tp" else axis for axis in sharding)
        is_linear = "weight" in row
        return Tensor(
            hf=above + row["hf"] + (".weight" if is_linear else ""),
            tunix=tunix + ("/" + row["weight"] if is_linear else ""),
            shape_hf=tuple(_product(a, here) for a in hf_axes),
            shape_tunix=tuple(_product(a, here) for a in axes),
            split=tuple(_product(a, here) for a in factors),
            order=tuple(factors.index(a) for a in own),
            axes=tuple(axes),
            sharding=sharding,
            slot=row.get("slot", 0),
            slots=slots,
            unused=bool(row.get("unused_when_shared")) and shared,
            buffer=bool(row.get("buffer")),
        )


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config.json."""
    return config.get("text_config") or config


def rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary settings of a config.json, of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters).

    Returns rope_type, rope_theta and the scaling's own keys; for a model with local and global layers those of
    the global ones, and `local`: the same for the local ones.
    """
    text = text_config(config)
    given = text.get("rope_parameters") or {}
    local = given.get("sliding_attention")
    found = dict(given.get("full_attention", given if local is None else {}))
    scaling = dict(text.get("rope_scaling") or {})
    found.update({k: v for k, v in scaling.items() if k not in found and k != "type"})
    found["rope_type"] = found.get("rope_type") or scaling.get("type") or "default"
    two_kinds = str(text.get("model_type", "")).startswith(("gemma3", "gemma4"))
    found.setdefault("rope_theta", text.get("rope_theta") or (1_000_000.0 if two_kinds else 10_000.0))
    if two_kinds:
        if not given and str(text["model_type"]).startswith("gemma4"):
            found.update(rope_type="proportional", partial_rotary_factor=0.25)
        found["local"] = dict(local or {})
        found["local"].setdefault("rope_theta", text.get("rope_local_base_freq") or 10_000.0)
        found["local"].setdefault("rope_type", "default")
    return found


def _product(axes: str, sizes: Mapping[str, Any]) -> int:
    return math.prod(sizes[axis] for axis in axes.split("*"))


def _holds(condition: str, sizes: Mapping[str, Any]) -> bool:
    """A table's condition: "", "never", "name", "not name", "a == b" or "a != b" (names of sizes, or integers)."""
    words = condition.split()
    if condition in ("", "never"):
        return condition == ""
    if len(words) == 3:
        left, right = (int(w) if w.isdigit() else sizes[w] for w in (words[0], words[2]))
        return bool((left == right) == (words[1] == "=="))
    return bool(sizes[words[-1]]) != (words[0] == "not")


def _text(value: Any) -> str:
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)

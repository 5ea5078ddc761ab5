"""Data that a pydantic model of the script's project refused: rows, or a document, of its fields."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from .data.plan import DOCUMENT
from .data.shapes import CONVERSATIONS, Kind, kind_by_name

DEPTH = 5
WORDS = {"integer": "number", "number": "number", "boolean": "choice"}


def asked_by_model(error: BaseException) -> dict[str, Any] | None:
    """What `write_repair` writes for data that doesn't fit a model; None for another error.

    A model of a whole file, which was given a list, asks for a document; one of a row for the columns of all of its
    fields.
    """
    schema, given = _refused(error)
    if schema is None:
        return None
    kind = kind_of_schema("", schema, schema.get("$defs", {}))
    of_rows = isinstance(kind, dict) and "list" in kind  # list[Row], of which each row was refused
    fields = kind.get("list", kind).get("fields") if isinstance(kind, dict) and _is_of(kind) else None
    if not fields:
        return None
    why = f"{type(error).__name__}: {error!s}"[:200]
    if isinstance(given, list) and not of_rows:
        return {"column": DOCUMENT, "kind": {"fields": fields}, "why": why}
    first, *others = fields
    return {"column": first, "kind": fields[first], "more": {name: fields[name] for name in others}, "why": why}


def _is_of(kind: dict[str, Any]) -> bool:
    return isinstance(kind.get("list", kind), dict)


def _refused(error: BaseException) -> tuple[dict[str, Any] | None, Any]:
    """The JSON schema of the model that refused its input, and that input."""
    if type(error).__name__ != "ValidationError" or not type(error).__module__.startswith("pydantic"):
        return None, None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        names = frame.f_locals
        if not str(frame.f_globals.get("__name__", "")).startswith("pydantic"):
            continue
        for held in (names.get("cls"), names.get("self"), type(names.get("self"))):
            ask = getattr(held, "model_json_schema", None) or getattr(held, "json_schema", None)
            if callable(ask) and not _is_settings(held):
                try:
                    return ask(), _given(error)
                except Exception:  # a type of its own has no schema
                    return None, None
    return None, None


def _is_settings(held: Any) -> bool:
    """Whether it is a model of settings, which no data is made up for."""
    classes = held.__mro__ if isinstance(held, type) else ()
    return any(each.__name__ == "BaseSettings" for each in classes)


def _given(error: Any) -> Any:
    found = error.errors()
    return found[0].get("input") if found and not found[0].get("loc") else None


def kind_of_schema(name: str, schema: Mapping[str, Any], known: Mapping[str, Any], depth: int = 0) -> Kind:
    """The kind of made-up value that a JSON schema lets through. What may be null is none where it is a list or an
    object: a turn's calls of tools, say."""
    if "$ref" in schema:
        return kind_of_schema(name, known.get(schema["$ref"].rpartition("/")[2], {}), known, depth)
    for several in ("anyOf", "oneOf", "allOf"):
        others = [each for each in schema.get(several, ()) if each.get("type") != "null"]
        if others:
            return kind_of_schema(name, others[0], known, depth)
    if "enum" in schema or "const" in schema:
        return {"one of": list(schema.get("enum") or [schema["const"]])}
    kind = schema.get("type")
    if kind == "object":
        return {"fields": _fields(schema, known, depth)}
    if kind == "array":
        inner = kind_of_schema(name, schema.get("items", {}), known, depth + 1) if depth < DEPTH else "text"
        turns = inner.get("fields", {}) if isinstance(inner, dict) else {}
        if {"role", "content"} <= set(turns):
            return "messages"
        if {"from", "value"} <= set(turns):
            return "sharegpt"
        return {"list": inner} | ({"least": schema["minItems"]} if schema.get("minItems", 0) > 2 else {})
    if kind in WORDS:
        return _within(schema) or WORDS[kind]
    if schema.get("format") in ("date", "date-time"):
        return "date"
    told = kind_by_name(name)
    return told if isinstance(told, str) and told not in ("number", "messages", "sharegpt") else "text"


def _fields(schema: Mapping[str, Any], known: Mapping[str, Any], depth: int) -> dict[str, Kind]:
    rows = schema.get("properties", {}) if depth < DEPTH else {}
    found = {}
    for name, part in rows.items():
        kind = kind_of_schema(name, part, known, depth + 1)
        plain = isinstance(kind, str) or "one of" in kind or name in CONVERSATIONS
        if plain or not any(each.get("type") == "null" for each in part.get("anyOf", ())):
            found[name] = kind
    return found


def _within(schema: Mapping[str, Any]) -> Kind | None:
    """Numbers between the bounds that a schema sets."""
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    if least is None and most is None:
        return None
    least, most = (most - 1 if least is None else least), (least + 8 if most is None else most)
    middle = (least + most) / 2
    whole = schema.get("type") == "integer"
    return {"one of": [int(middle) if whole else middle]}

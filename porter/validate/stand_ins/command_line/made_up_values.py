"""A value for a setting that nobody gave, by its name, type and help: what a person would write to see it run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

PLACEHOLDER = "tpu-port/stand-in"
DATA, OUTPUT = "tpu_port_data", "tpu_port_output"
TRUE = "true"

NUMBERS: tuple[tuple[str, float], ...] = (
    (r"local_?rank|start|offset|gpu_?id|device", 0),
    (r"(^|_)lr|learning_?rate", 1e-4),
    (r"epoch", 1),
    (r"accum", 1),
    (r"batch|(^|_)bs", 2),
    (r"len|tokens|seq|block|cutoff|context|width", 256),
    (r"alpha", 16),
    (r"dropout|decay|warmup_steps", 0),
    (r"rank|(^|_)r$", 8),
    (r"seed", 42),
    (r"max_?steps|(train|total|num)_steps|iter", 100),
    (r"steps|every|freq|interval", 10),
    (r"ratio|frac|percent|pct|split|beta|prob|size_test|test_size|val_size|norm|eps", 0.1),
    (r"temp|top_?p|scale|weight|gamma|lambda|coef", 1.0),
    (r"samples|rows|limit|examples|size|count|max", 64),
    (r"labels|classes", 2),
)
TEXTS: tuple[tuple[str, str], ...] = (
    (r"adapter|lora_(path|dir|weights)|peft", "tpu_port_adapter"),
    (r"out|save|logs?(_|$)|logging|cache|work_?dir|run_?dir|results?|export|destination|checkpoint_?dir", OUTPUT),
    (r"token$|key|secret|passw|auth", "tpu-port"),
    (r"config|cfg|yaml|recipe", "tpu_port_config.yaml"),
    (r"split", "train"),
    (r"(text|prompt|question|answer|label|input|target|chosen|rejected|response)?_?(column|field)", "text"),
    (r"model_?type|arch|family", "llama"),
    (r"model|ckpt|checkpoint|pretrained|tokenizer|teacher|student|weights|backbone|llm", PLACEHOLDER),
    (r"data|corpus|file|train|eval|valid|test|input|csv|json|path|dir|(^|_)(ds|dev|val)(_|$)", DATA),
    (r"device", "cpu"),
    (r"dtype|precision", "float32"),
    (r"lang", "en"),
    (r"method|mode|task|stage|algo|objective|type", "sft"),
    (r"prompt|text|question|instruction|system", "Say what this does."),
)
SUFFIXES = (
    (r"\.jsonl|jsonlines|json\.loads\(", ".jsonl"),
    (r"\.parquet|read_parquet", ".parquet"),
    (r"\.csv|read_csv", ".csv"),
    (r"\.tsv", ".tsv"),
    (r"\.json\b|json\.load\(|read_json", ".json"),
    (r"\.txt", ".txt"),
)
# A setting whose name says nothing names a place where its help does.
PLACE = re.compile(r"\b(path|file|folder|directory|data ?set)\b", re.IGNORECASE)
EXAMPLE = re.compile(r"(?:e\.g\.?|for example|for instance|such as)[:,]?\s+[`'\"(]*([\w.:~/-]+\w)", re.IGNORECASE)


def is_model(name: str) -> bool:
    """Whether a setting of this name holds a model's id or path."""
    return text_value(name) == PLACEHOLDER


def is_config(name: str) -> bool:
    """Whether a setting of this name holds the path of a configuration file."""
    return text_value(name) == "tpu_port_config.yaml"


def number_value(name: str) -> float:
    """A number for a setting of this name."""
    plain = _plain(name)
    return next((value for pattern, value in NUMBERS if re.search(pattern, plain)), 1)


def text_value(name: str, help: str = "", script: str = "") -> str:
    """A text for a setting of this name. `help` may give an example, `script` says which files it reads."""
    plain = _plain(name)
    value = _known_text(plain) or (_known_text(help.lower()) if PLACE.search(help) else None) or "tpu-port"
    example = EXAMPLE.search(help)
    if value == PLACEHOLDER and example and "/" in example[1] and not example[1].startswith(("/", ".")):
        return example[1]
    if value != DATA:
        return value
    if re.search(r"dir|folder|root", plain):
        return DATA
    if re.search(r"_(name|id|repo)$", plain):
        return "tpu-port/data"
    if re.search(r"^(output|test|eval|valid)|_(test|eval|valid|val|dev)", plain):
        value = f"{DATA}_held_out"
    suffixes = (suffix for pattern, suffix in SUFFIXES if re.search(pattern, f"{plain} {help}"))
    suffix = next(suffixes, None) or next((suffix for pattern, suffix in SUFFIXES if re.search(pattern, script)), None)
    return value + (suffix or ".jsonl")


def _known_text(plain: str) -> str | None:
    return next((value for pattern, value in TEXTS if re.search(pattern, plain)), None)


def word_for(
    name: str,
    kind: Callable[[str], Any] | None = None,
    choices: Sequence[Any] = (),
    help: str = "",
    script: str = "",
) -> str:
    """A command-line word for a setting: one of its `choices`, else what `kind` (int, float, str, ...) takes."""
    if choices:
        return str(next(iter(choices)))
    if kind is bool:
        return TRUE
    number = number_value(name)
    if kind is int:
        return str(int(number) if number >= 1 or number == 0 else 1)
    if kind is float:
        return f"{number:g}"
    tries = [text_value(name, help, script), f"{number:g}", "1", TRUE, "train", "0.5", "2024-01-01", "{}", "[]", "a=1"]
    for word in tries:
        if kind in (None, str):
            return word
        try:
            assert kind is not None
            kind(word)
        except Exception:  # any conversion of somebody's own, which may raise anything
            continue
        return word
    return tries[0]


def _plain(name: str) -> str:
    name = re.sub(r"^((config|cfg|args|params)[.])+", "", name.strip("-<>"))
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_").replace(".", "_").lower()

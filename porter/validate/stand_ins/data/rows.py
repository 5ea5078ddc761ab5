"""Made-up rows: the same for the same column and index in every process, whatever other columns there are."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from .shapes import Kind

VERILOG = (
    "a adder always and array assign begin bit buffer by case check clock counter cycle data decode delay device "
    "driver each edge else enable encode end every event false field first flag for from gate given high hold if in "
    "index initial input integer into is it last latch least left level line load loop low mask memory mode module "
    "most next no not of on one only or order out output parity path port pulse queue rate ready register reset "
    "result return right rising sample select sequence shift signal sign size so stage start state step stop store "
    "sum table test than that the then this time to true two type until valid value wait when wide wire with word "
    "write zero"
)
WORDS = VERILOG.split()
LONGEST = 1_500  # words of a row: longer ones only cost time
OVER = 700  # tokens: a limit above it is not exceeded
BLOCK = 64  # tokens of a row that was cut into blocks of one length
SHARED = ("chosen", "rejected", "prompt", "question", "instruction", "query")


def made_up_rows(
    columns: Mapping[str, Kind], count: int, seed: int = 0, limit: int | None = None
) -> list[dict[str, Any]]:
    """`count` rows with these columns; one in four is long, since a wrong rotary embedding hides in short ones.

    `limit` in tokens: one row in eight is longer than it, where it is 700 or less.
    """
    return [
        {name: made_up_value(name, kind, index, seed, limit) for name, kind in columns.items()}
        for index in range(count)
    ]


def made_up_value(name: str, kind: Kind, index: int, seed: int = 0, limit: int | None = None) -> Any:
    """What column `name` holds in row `index`. Columns that continue the same prompt begin with the same text."""
    return _Draw(name, index, seed, limit).value(name, kind)


class _Draw:
    def __init__(self, name: str, index: int, seed: int, limit: int | None) -> None:
        self.name, self.index = name, index
        self.draw = random.Random(f"{seed}:{name}:{index}")
        self.shared = random.Random(f"{seed}:the prompt:{index}")
        self.long = index % 4 == 3
        wanted = limit is not None and limit <= OVER and index % 8 == 7
        self.words = min(LONGEST, limit + limit // 4 + 16) if wanted and limit is not None else 0

    def sentence(self, least: int, most: int, draw: random.Random | None = None) -> str:
        draw = draw or self.draw
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))

    def text(self) -> str:
        if self.name in SHARED and self.name not in ("chosen", "rejected"):
            return self.sentence(4, 16, self.shared)
        if self.words:
            return self.sentence(self.words, self.words + 8)
        return self.sentence(24, 48) if self.long else self.sentence(4, 16)

    def value(self, name: str, kind: Kind, depth: int = 0) -> Any:
        if isinstance(kind, dict):
            return self.nested(name, kind, depth)
        if kind == "choice":
            return self.index % 3 != 0
        if kind in ("key", "text key"):
            return self.index if kind == "key" else f"key {self.index}"
        if kind == "number":
            return self.draw.randrange(100)
        if kind == "numeral":
            return str(self.draw.randrange(100))
        if kind == "code":
            name, other = self.draw.sample(WORDS, 2)
            return f"def {name}_{other}(value):\n    # {self.text()}\n    return value + {self.draw.randrange(9)}\n"
        if kind == "gsm8k":
            return f"{self.text()}\n#### {self.draw.randrange(1000)}"
        if kind in ("guanaco", "hh"):
            return self.dialogue("### Human: ", "### Assistant: ", "") if kind == "guanaco" else self.dialogue()
        if kind in ("messages", "sharegpt"):
            return self.conversation(kind)
        if kind == "message prompt":
            return self.conversation("messages")[:-1]
        if kind == "message answer":
            return self.conversation("messages")[-1:]
        if kind == "date":
            return f"20{self.draw.randrange(10, 25)}-0{self.draw.randrange(1, 10)}-1{self.draw.randrange(10)}"
        if kind == "ended":
            return f"{self.text()}\n"
        if kind == "block":  # the same in every column of a row
            return [self.shared.randrange(3, 100) for _ in range(BLOCK)]
        if kind == "mask":
            return [1] * BLOCK
        if kind == "tokens":
            return [self.draw.randrange(3, 100) for _ in range(self.draw.randint(8, 40))]
        return self.text()

    def nested(self, name: str, kind: dict[str, Any], depth: int) -> Any:
        if "one of" in kind:
            return kind["one of"][self.index % len(kind["one of"])]
        if "begins" in kind:
            return f"{kind['begins'][self.index % len(kind['begins'])]}. {self.text()}"
        if "marked" in kind:
            parts = [self.text()]
            for marker in kind["marked"]:
                end = self.draw.randrange(100) if marker.strip() == "####" else self.sentence(4, 12)
                if marker.startswith("</"):  # what it closes stands before the rest
                    parts.append(f"{marker}\n{end}")
                else:
                    parts.append(marker if marker.endswith((">", "}", "42")) else f"{marker} {end}")
            return "\n".join(parts)
        if "json" in kind:
            return json.dumps(self.value(name, kind["json"], depth + 1))
        if "fields" in kind:
            return {key: self.value(key, inner, depth + 1) for key, inner in kind["fields"].items()}
        if "mapping" in kind:
            return {f"key{number}": self.value(name, kind["mapping"], depth + 1) for number in range(4)}
        words, self.words = self.words, 0 if depth else self.words
        count = kind.get("exactly") or max(kind.get("least", 0), 2) + self.index % 2
        found = [self.value(name, kind["list"], depth + 1) for _ in range(count)]
        self.words = words
        return found

    def dialogue(self, human: str = "\n\nHuman: ", assistant: str = "\n\nAssistant: ", end: str = "") -> str:
        first = human + self.sentence(4, 12, self.shared)
        if self.index % 3 == 2:
            first += assistant + self.sentence(4, 12, self.shared) + human + self.sentence(4, 12, self.shared)
        return first + assistant + self.text() + end

    def conversation(self, kind: str) -> list[dict[str, str]]:
        """Turns that alternate; a system turn now and then, and what was asked is the same in every column."""
        role, content = ("from", "value") if kind == "sharegpt" else ("role", "content")
        user, assistant = ("human", "gpt") if kind == "sharegpt" else ("user", "assistant")
        turns: list[dict[str, str]] = []
        for number in range(2 if self.index % 3 == 2 else 1):
            if number:
                turns[-1][content] = self.sentence(4, 16, self.shared)
            turns.append({role: user, content: self.sentence(4, 12, self.shared)})
            if self.words:
                turns.append({role: assistant, content: self.sentence(self.words, self.words + 8)})
            else:
                least, most = (24, 40) if self.long else (4, 16)
                turns.append({role: assistant, content: self.sentence(least, most)})
        return turns

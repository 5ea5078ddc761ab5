"""The trainer of a second part of a script, and a script whose trainer is given a model that is loaded before."""

from __future__ import annotations

from .porting import HEAD, PLAIN

SECOND = PLAIN.removeprefix(HEAD)
LOADED = "from transformers import AutoModelForCausalLM\n" + PLAIN.replace("'Qwen/Qwen3-0.6B'", "m").replace(
    "trainer = ", "m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\ntrainer = "
)

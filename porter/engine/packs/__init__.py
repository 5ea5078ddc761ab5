"""Packs of rules: loading them, and the rules that the engine itself has."""

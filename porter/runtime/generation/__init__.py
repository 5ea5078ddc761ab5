"""Sampling: prompts, completions, a text generation pipeline."""

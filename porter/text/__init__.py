"""Text and nothing else: edits, laid out calls, import lines, code made of values."""

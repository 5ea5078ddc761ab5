"""Dictionaries of keywords, `trainer(**kwargs)`: which keys they have, and what each is."""

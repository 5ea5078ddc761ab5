"""Tokenizers under transformers 5 as under the release that a script was written for: their ids, and what they give."""

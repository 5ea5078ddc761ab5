"""Losses: of tokens, preferences and policies; the noise of NEFTune."""

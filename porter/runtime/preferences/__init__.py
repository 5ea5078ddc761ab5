"""Preference training: its rows, batches and trainer."""

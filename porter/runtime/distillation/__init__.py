"""Distillation: its rows, batches and trainer."""

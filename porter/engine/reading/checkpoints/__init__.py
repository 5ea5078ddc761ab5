"""Checkpoints that a script looks for, resumes from or loads, and what it saved."""

"""Unsloth: its models, its defaults for TRL's classes, chat templates, training on answers alone."""

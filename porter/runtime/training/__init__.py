"""The training itself: settings, optimizers, schedules, logs, what it returns."""

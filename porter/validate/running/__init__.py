"""A script on its way through a process of its own: its copy, its start, its end."""

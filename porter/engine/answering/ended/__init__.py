"""Runs that end before the script does, by a line of its own or with an error."""

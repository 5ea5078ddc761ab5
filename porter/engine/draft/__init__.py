"""What a port will be, while it is made: its edits, and what is said of it."""

"""Values followed through a script: where they come from, where they go, what reaches a line."""

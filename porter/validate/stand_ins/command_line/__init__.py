"""Made-up arguments, variables and answers."""

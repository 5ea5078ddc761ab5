"""A training loop whose epochs stay in the port, because it does more between two of them than print."""

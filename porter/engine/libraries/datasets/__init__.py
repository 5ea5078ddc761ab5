"""datasets: columns of today, which are no lists any more."""

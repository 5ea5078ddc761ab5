"""What the modules of a project say that an expression holds, unless its user says another: as syntax trees."""

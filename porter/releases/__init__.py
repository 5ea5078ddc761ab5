"""What the releases of the source libraries had, as data made from their wheels, and what can be concluded from it."""

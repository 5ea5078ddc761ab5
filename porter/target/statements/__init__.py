"""The statements that the ports of several trainers have, and the arguments of their calls."""

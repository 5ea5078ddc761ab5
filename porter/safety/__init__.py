"""What keeps others' input from doing harm: limits, masked secrets, spelled out characters."""

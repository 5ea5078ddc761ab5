"""Names of a port that are not there: gone from their libraries, lost with what bound them, or bound by nothing."""

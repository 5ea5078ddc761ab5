"""Which release of a library a script was written for, and how that is known."""

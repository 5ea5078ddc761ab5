"""Receipts: what says, of each keyword of the source, in which line of the port its value stands."""

"""Training loops written by hand: which are standard, what they say, and what stands in the way of a port."""

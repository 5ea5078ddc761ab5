"""The JAX processes of a run, and the arrays that lie in all of them."""

"""Tables and formats that porting reads, too: families, releases, argument classes, adapter files. No JAX."""

"""bitsandbytes: a quantised base."""

"""Behind `porter.runtime.arguments`: the parser, what `__post_init__` does, Unsloth's defaults, data mixtures."""

"""What a training loop does besides training: it saves, evaluates and prints, and fills lists that are read later."""

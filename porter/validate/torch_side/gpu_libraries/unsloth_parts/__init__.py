"""What stands in for Unsloth on the torch side: its modules, what it does to TRL and to transformers, its chats."""

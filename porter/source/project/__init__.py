"""What lies around a script: its project's folders, its modules, and the releases that it asks for."""
